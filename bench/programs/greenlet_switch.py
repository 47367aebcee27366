# SPDX-License-Identifier: MIT
"""greenlets that switch all the time, in the middle of recursion and of sorted()."""
REQUIRES = ["greenlet"]
START = r"^greenlet::|^green_switch|^single_result"
NATIVE = r"munmap|mmap"
ROOTS = [[r"^<module> \(lab_target\.py", r"^run \(lab_target\.py", r"^work \("],
         [r"^(player|sorter) \("], [r"^greenlet::UserGreenlet::inner_bootstrap"]]
CALLS = {"work": {"play"}, "play": {"player", "sorter", "<listcomp>"}, "player": {"down"}, "down": {"down", "spin"},
         "spin": set(), "sorter": {"key"}, "key": {"spin"}}
NEVER = [(r"^player \(", r"^(key|sorter)"), (r"^sorter \(", r"^down \(")]


def spin():
    total = 0
    for i in range(3000):
        total += i
    return total


def down(level):
    spin()
    if level:
        down(level - 1)
    greenlet.getcurrent().parent.switch()
    return spin()


def player():
    down(10)


def key(value):
    spin()
    greenlet.getcurrent().parent.switch()
    return -value


def sorter():
    return sorted(range(20), key=key)


def play():
    running = [greenlet.greenlet(one) for one in (player, sorter, player)]
    while running:
        for one in list(running):
            one.switch()
            if one.dead:
                running.remove(one)


def setup():
    global greenlet
    import greenlet


def work():
    play()
