#compdef pdump
# SPDX-License-Identifier: MIT
# Completion of pdump(1) for zsh.

_arguments -s -S \
	'(-p --pid)'{-p+,--pid=}'[process to look at]:process:_pids' \
	'(-j --json)'{-j,--json}'[JSON instead of text]' \
	'(-n --native)'{-n,--native}'[native frames merged with the Python frames]' \
	'(-i --idle)'{-i,--idle}'[accepted; idle threads are always shown]' \
	'(-g --gil)'{-g,--gil}'[only the thread that holds the GIL]' \
	'*--thread=[only this OS thread]:TID: ' \
	'--native-threads=[threads that Python does not know]:native-threads:(yes no)' \
	'--internals[keep the interpreter'\''s own frames]' \
	'--kernel[what a blocked thread waits in]' \
	'--nonblocking[never stop the process]' \
	'--full-filenames[do not shorten paths]' \
	'--color=[when to colour]:color:(auto always never)' \
	'--join=[evidence that ties OS threads to Python threads]:join:(auto native-id fs-base rbx pthread-tid)' \
	'--unwinder=[what is unwound]:unwinder:(snapshot ptrace)' \
	'(-q --quiet)'{-q,--quiet}'[errors only]' \
	'(-v --verbose)'{-v,--verbose}'[more messages]' \
	'*--debug=[much more about one area]:debug:(target unwind python sample symbolize cython pause all)' \
	'(-h --help)'{-h,--help}'[print a summary of the options]' \
	'(-V --version)'{-V,--version}'[print the version]' \
	'1:process:_pids'
