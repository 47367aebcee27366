# SPDX-License-Identifier: MIT
# Completion of precord(1) for fish.

# Behind "--" stands a command of its own.
function __precord_in_command
	contains -- -- (commandline -opc)
end

complete -c precord -f -n 'not __precord_in_command' -a '(__fish_complete_pids)'
complete -c precord -n __precord_in_command -a '(__fish_complete_subcommand)'
complete -c precord -n 'not __precord_in_command' -s p -l pid -x -a '(__fish_complete_pids)' -d "process to look at"
complete -c precord -n 'not __precord_in_command' -s s -l subprocesses -d "the processes that it has started, and starts, too"
complete -c precord -n 'not __precord_in_command' -l cgroup -x -a 'self (__fish_complete_directories)' -d "all processes of a control group"
complete -c precord -n 'not __precord_in_command' -l native-processes -x -a 'yes no' -d "native stacks of those that are not Python"
complete -c precord -n 'not __precord_in_command' -s o -l output -r -F -d "write the profile there"
complete -c precord -n 'not __precord_in_command' -s f -l format -x -a 'svg html folded json jsonl speedscope pprof firefox trace cpuprofile markdown' -d "format of the profile"
complete -c precord -n 'not __precord_in_command' -s r -l rate -x -d "samples a second of each thread"
complete -c precord -n 'not __precord_in_command' -s d -l duration -x -d "stop after this time"
complete -c precord -n 'not __precord_in_command' -l mode -x -a 'running wall cpu gil' -d "which threads are counted"
complete -c precord -n 'not __precord_in_command' -s t -d "a root frame for all threads of one name"
complete -c precord -n 'not __precord_in_command' -l threads -a 'name each' -d "a root frame for all threads of one name, or for each"
complete -c precord -n 'not __precord_in_command' -s F -l function -d "no line numbers"
complete -c precord -n 'not __precord_in_command' -l flame -d "root at the bottom"
complete -c precord -n 'not __precord_in_command' -l icicle -d "root at the top"
complete -c precord -n 'not __precord_in_command' -l title -x -d "title of the SVG"
complete -c precord -n 'not __precord_in_command' -l source -x -a 'none auto' -d "source texts in HTML"
complete -c precord -n 'not __precord_in_command' -l min-width -x -d "leave out boxes below this share"
complete -c precord -n 'not __precord_in_command' -l snapshot -x -d "write what there is each time so many seconds have passed"
complete -c precord -n 'not __precord_in_command' -l open -d "show what was written in a browser"
complete -c precord -n 'not __precord_in_command' -l focus -x -d "only stacks with such a frame"
complete -c precord -n 'not __precord_in_command' -l ignore -x -d "no stacks with such a frame"
complete -c precord -n 'not __precord_in_command' -l include -x -d "only such frames"
complete -c precord -n 'not __precord_in_command' -l exclude -x -d "no such frames"
complete -c precord -n 'not __precord_in_command' -l capture -r -F -d "write the raw samples, too"
complete -c precord -n 'not __precord_in_command' -s n -l native -d "native frames merged with the Python frames"
complete -c precord -n 'not __precord_in_command' -s i -l idle -d "count idle threads, too"
complete -c precord -n 'not __precord_in_command' -s g -l gil -d "only the thread that holds the GIL"
complete -c precord -n 'not __precord_in_command' -l thread -x -d "only this OS thread"
complete -c precord -n 'not __precord_in_command' -l native-threads -x -a 'yes no' -d "threads that Python does not know"
complete -c precord -n 'not __precord_in_command' -l internals -d "keep the interpreter's own frames"
complete -c precord -n 'not __precord_in_command' -l kernel -d "what a blocked thread waits in"
complete -c precord -n 'not __precord_in_command' -l nonblocking -d "never stop the process"
complete -c precord -n 'not __precord_in_command' -l full-filenames -d "do not shorten paths"
complete -c precord -n 'not __precord_in_command' -l color -x -a 'auto always never' -d "when to colour"
complete -c precord -n 'not __precord_in_command' -l join -x -a 'auto native-id fs-base rbx pthread-tid' -d "evidence that ties OS threads to Python threads"
complete -c precord -n 'not __precord_in_command' -l unwinder -x -a 'snapshot ptrace' -d "what is unwound"
complete -c precord -n 'not __precord_in_command' -l stop -x -a 'auto ptrace' -d "how a thread is kept still"
complete -c precord -n 'not __precord_in_command' -s q -l quiet -d "errors only"
complete -c precord -n 'not __precord_in_command' -s v -l verbose -d "more messages"
complete -c precord -n 'not __precord_in_command' -l debug -x -a 'target unwind python join sample symbolize pause all' -d "much more about one area"
complete -c precord -n 'not __precord_in_command' -l no-sandbox -d "parse files with all rights (debugging)"
complete -c precord -n 'not __precord_in_command' -s h -l help -d "print a summary of the options"
complete -c precord -n 'not __precord_in_command' -s V -l version -d "print the version"
