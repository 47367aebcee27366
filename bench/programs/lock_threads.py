# SPDX-License-Identifier: MIT
"""Threads that wait in a Lock, an RLock, a Condition, a Queue, a Semaphore and an Event; all are counted."""
import queue
import threading
import time

MODE = "wall"
LEARN = 3
# Five of the nine threads wait in a lock of the _thread module: a lock's, and within the others of threading.
SHARES = {r"_thread\.lock\.(acquire|__enter__)|^lock_PyThread_acquire_lock": (50, 60)}
WITHIN = {r"RLock\.acquire": r"^(in_rlock|wait|notify) \(|_acquire_restore"}


def in_lock():
    with LOCKS[0]:
        return 1


def in_rlock():
    with LOCKS[1]:
        return 1


def in_condition():
    with CONDITION:
        CONDITION.wait()


def in_queue():
    QUEUE.get()


def in_simple_queue():
    SIMPLE.get()


def in_semaphore():
    SEMAPHORE.acquire()


def in_event():
    EVENT.wait()


def in_sleep():
    time.sleep(1e6)


def hold(locks, ready):
    for lock in locks:
        lock.acquire()
    ready.set()


def setup():
    global LOCKS, CONDITION, QUEUE, SIMPLE, SEMAPHORE, EVENT
    LOCKS, CONDITION = [threading.Lock(), threading.RLock()], threading.Condition()
    QUEUE, SIMPLE = queue.Queue(), queue.SimpleQueue()
    SEMAPHORE, EVENT = threading.Semaphore(0), threading.Event()
    ready = threading.Event()
    hold(LOCKS, ready)
    for target in (in_lock, in_rlock, in_condition, in_queue, in_simple_queue, in_semaphore, in_event, in_sleep):
        threading.Thread(target=target, daemon=True, name=target.__name__).start()


def work():
    time.sleep(0.05)
