# SPDX-License-Identifier: MIT
# Completion of pdump(1) for fish.

complete -c pdump -f -a '(__fish_complete_pids)'
complete -c pdump -s p -l pid -x -a '(__fish_complete_pids)' -d "process to look at"
complete -c pdump -s j -l json -d "JSON instead of text"
complete -c pdump -s n -l native -d "native frames merged with the Python frames"
complete -c pdump -s i -l idle -d "accepted; idle threads are always shown"
complete -c pdump -s g -l gil -d "only the thread that holds the GIL"
complete -c pdump -l thread -x -d "only this OS thread"
complete -c pdump -l native-threads -x -a 'yes no' -d "threads that Python does not know"
complete -c pdump -l internals -d "keep the interpreter's own frames"
complete -c pdump -l kernel -d "what a blocked thread waits in"
complete -c pdump -l nonblocking -d "never stop the process"
complete -c pdump -l full-filenames -d "do not shorten paths"
complete -c pdump -l color -x -a 'auto always never' -d "when to colour"
complete -c pdump -l join -x -a 'auto native-id fs-base rbx pthread-tid' -d "evidence that ties OS threads to Python threads"
complete -c pdump -l unwinder -x -a 'snapshot ptrace' -d "what is unwound"
complete -c pdump -s q -l quiet -d "errors only"
complete -c pdump -s v -l verbose -d "more messages"
complete -c pdump -l debug -x -a 'target unwind python sample symbolize cython pause all' -d "much more about one area"
complete -c pdump -s h -l help -d "print a summary of the options"
complete -c pdump -s V -l version -d "print the version"
