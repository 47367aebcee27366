#compdef pdump
# SPDX-License-Identifier: MIT
# Completion of pdump(1) for zsh.

_arguments -s -S \
	'*'{-p+,--pid=}'[process to look at]:process:_pids' \
	'(-s --subprocesses)'{-s,--subprocesses}'[the processes that it has started, too]' \
	'--cgroup=[all processes of a control group, or self]:cgroup:_files -/' \
	'--native-processes=[native stacks of those that are not Python]:native-processes:(yes no)' \
	'--merge[equal stacks once; also of saved dumps]' \
	'(-F --function)'{-F,--function}'[no line numbers]' \
	'--core=[a core file instead of a process]:core file:_files' \
	'--sysroot=[where the core file'\''s files are]:folder:_files -/' \
	'--symbols=[a folder with files by build ID or name]:folder:_files -/' \
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
	'*--debug=[much more about one area]:debug:(target unwind python join sample symbolize pause all)' \
	'--no-sandbox[parse files with all rights (debugging)]' \
	'(-h --help)'{-h,--help}'[print a summary of the options]' \
	'(-V --version)'{-V,--version}'[print the version]' \
	'*:process or file:{ if (( ${words[(I)--merge]} )); then _alternative "processes\:process\:_pids" "files\:dump\:_files"; else _pids; fi }'
