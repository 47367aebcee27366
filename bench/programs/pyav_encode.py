# SPDX-License-Identifier: MIT
"""PyAV: frames made, encoded by x264 and decoded again, in hand-written assembly and threads of FFmpeg's."""
import io

REQUIRES = ["av", "numpy"]
LEARN = 1
NATIVE = r"x264|av(codec|util)|libav|ff_|frame_worker|thread_worker|worker|pool"


def encoded():
    out = io.BytesIO()
    with av.open(out, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=25, options={"preset": "fast", "threads": "2"})
        stream.width, stream.height, stream.pix_fmt = 640, 360, "yuv420p"
        for frame in FRAMES:
            for packet in stream.encode(av.VideoFrame.from_ndarray(frame)):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    return out.getvalue()


def decoded(data):
    with av.open(io.BytesIO(data)) as container:
        for frame in container.decode(video=0):
            frame.to_ndarray(format="rgb24")


def setup():
    global av, FRAMES
    import av
    import numpy
    rows, columns = numpy.mgrid[0:360, 0:640]
    FRAMES = [numpy.stack([(rows + 3 * i) % 256, (columns * i // 3) % 256, (rows * columns // 97 + i) % 256],
                          2).astype("uint8") for i in range(12)]


def work():
    decoded(encoded())
