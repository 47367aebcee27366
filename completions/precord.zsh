#compdef precord
# SPDX-License-Identifier: MIT
# Completion of precord(1) for zsh.

_arguments -s -S \
	'*'{-p+,--pid=}'[process to look at]:process:_pids' \
	'(-s --subprocesses)'{-s,--subprocesses}'[the processes that it has started, and starts, too]' \
	'--cgroup=[all processes of a control group, or self]:cgroup:_files -/' \
	'--native-processes=[native stacks of those that are not Python]:native-processes:(yes no)' \
	'*'{-o+,--output=}'[write the profile there]:file:_files' \
	'(-f --format)'{-f+,--format=}'[format of the profile]:format:(svg html folded json jsonl speedscope pprof firefox trace cpuprofile markdown)' \
	'(-r --rate)'{-r+,--rate=}'[samples a second of each thread]:HZ: ' \
	'(-d --duration)'{-d+,--duration=}'[stop after this time]:SECONDS: ' \
	'--mode=[which threads are counted]:mode:(running wall cpu gil)' \
	'(--threads)-t[a root frame for all threads of one name]' \
	'(-t)--threads=-[a root frame for all threads of one name, or for each]::threads:(name each)' \
	'(-F --function)'{-F,--function}'[no line numbers]' \
	'--flame[root at the bottom]' \
	'--icicle[root at the top]' \
	'--title=[title of the SVG]:TEXT: ' \
	'--source=[source texts in HTML]:source:(none auto)' \
	'--min-width=[leave out boxes below this share]:PCT: ' \
	'--snapshot=[write what there is each time so many seconds have passed]:SECONDS: ' \
	'--open[show what was written in a browser]' \
	'--focus=[only stacks with such a frame]:REGEX: ' \
	'--ignore=[no stacks with such a frame]:REGEX: ' \
	'--include=[only such frames]:REGEX: ' \
	'--exclude=[no such frames]:REGEX: ' \
	'--capture=[write the raw samples, too]:file:_files' \
	'(-n --native)'{-n,--native}'[native frames merged with the Python frames]' \
	'(-i --idle)'{-i,--idle}'[count idle threads, too]' \
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
	'--stop=[how a thread is kept still]:stop:(auto interrupt cpu ptrace)' \
	'(-q --quiet)'{-q,--quiet}'[errors only]' \
	'(-v --verbose)'{-v,--verbose}'[more messages]' \
	'*--debug=[much more about one area]:debug:(target unwind python join sample symbolize pause all)' \
	'--no-sandbox[parse files with all rights (debugging)]' \
	'(-h --help)'{-h,--help}'[print a summary of the options]' \
	'(-V --version)'{-V,--version}'[print the version]' \
	'(-)1:process:_pids' \
	'*::command:_normal'
