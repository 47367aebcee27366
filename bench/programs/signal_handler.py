# SPDX-License-Identifier: MIT
"""A signal handler in C that is busy, on the ordinary stack and on one of its own."""
import ctypes
import os
import subprocess

NEEDS = ["cc"]
VARIANTS = {"ordinary": {"LAB_STACK": "0"}, "sigaltstack": {"LAB_STACK": "1"}}
LEARN = 1
SOURCE = r"""
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
static volatile unsigned long sink;
__attribute__((noinline)) void busy_in_handler(void) { for (int i = 0; i < 15000000; i++) sink += i; }
/* Once each time: where the handler takes longer than that, the program would be in it for ever. */
static void soon(void) { const struct itimerval once = {{0, 0}, {0, 10000}}; setitimer(ITIMER_PROF, &once, NULL); }
__attribute__((noinline)) static void on_signal(int number) { (void)number; busy_in_handler(); sink++; soon(); }
__attribute__((noinline)) void crunch(void) { for (int i = 0; i < 20000000; i++) sink += i; sink++; }
__attribute__((noinline)) void spin_c(void) { crunch(); sink++; }
void set(int own)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | (own ? SA_ONSTACK : 0)};
	stack_t stack = {.ss_sp = malloc(1 << 20), .ss_size = 1 << 20};
	if (own)
		sigaltstack(&stack, NULL);
	sigaction(SIGPROF, &action, NULL);
	soon();
}
"""
HANDLER = r"^busy_in_handler \("
SHARES = {HANDLER: (5, 99), r"<signal handler called>": (5, 99)}
NEVER = [(r"^(?!on_signal)\w+ \(", HANDLER), (r"^(?!<signal|__restore_rt|0x)", r"^on_signal \("),
         (r"^(work|spin) \(", r"^crunch \(")]
WITHIN = {r"^(spin_c|crunch|on_signal|busy_in_handler) \(": r"^(spin|work|run) \("}
THROUGH = {r"^crunch \(": [r"^spin \(", r"^spin_c \("]}


def build(folder, _):
    source = os.path.join(folder, "handler.c")
    with open(source, "w", encoding="utf-8") as file:
        file.write(SOURCE)
    subprocess.run(["cc", "-O1", "-fno-optimize-sibling-calls", "-shared", "-fPIC", "-o", f"{folder}/handler.so",
                    source], check=True, capture_output=True, text=True)


def spin():
    LIBRARY.spin_c()


def setup():
    global LIBRARY
    LIBRARY = ctypes.CDLL(os.path.join(os.environ["LAB_FOLDER"], "handler.so"))
    LIBRARY.set(int(os.environ["LAB_STACK"]))


def work():
    spin()
