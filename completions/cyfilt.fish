# SPDX-License-Identifier: MIT
# Completion of cyfilt(1) for fish.

complete -c cyfilt -f
complete -c cyfilt -s m -l module -x -d "extension module that the names are of"
complete -c cyfilt -s s -l so -r -F -d "file of the extension module"
complete -c cyfilt -s h -l help -d "list the options"
complete -c cyfilt -s V -l version -d "print the version"
