# SPDX-License-Identifier: MIT
"""A ThreadPoolExecutor, and a thread for each request that lives for milliseconds."""
import concurrent.futures
import threading

LEARN = 5


def parse(number):
    return sum(i ^ number for i in range(3000))


def request(number):
    total = 0
    for i in range(20):
        total += parse(number + i)
    return total


def pooled():
    return sum(POOL.map(request, range(20)))


def by_thread():
    threads = [threading.Thread(target=request, args=(i,)) for i in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def setup():
    global POOL
    POOL = concurrent.futures.ThreadPoolExecutor(4)


def work():
    pooled()
    by_thread()
