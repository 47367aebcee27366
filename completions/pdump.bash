# SPDX-License-Identifier: MIT
# Completion of pdump(1) for bash.

_pdump()
{
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
	local options='-p --pid= --core= --sysroot= --symbols= -s --subprocesses --cgroup= --native-processes= -n --native -i --idle -g --gil --thread= --native-threads=
		--internals --kernel --nonblocking --merge -F --function -j --json --full-filenames --color= --join= --unwinder=
		-q --quiet -v --verbose --debug= --no-sandbox -h --help -V --version'
	# bash splits --color=always at "=": then the option stands before it.
	if [[ $current == '=' ]]; then
		current=
	elif [[ $previous == '=' ]]; then
		previous=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	COMPREPLY=()
	case $previous in
	--color) COMPREPLY=($(compgen -W 'auto always never' -- "$current")) ;;
	--join) COMPREPLY=($(compgen -W 'auto native-id fs-base rbx pthread-tid' -- "$current")) ;;
	--unwinder) COMPREPLY=($(compgen -W 'snapshot ptrace' -- "$current")) ;;
	--cgroup) COMPREPLY=($(compgen -W 'self' -- "$current") $(compgen -d -- "$current")) ;;
	--native-threads | --native-processes) COMPREPLY=($(compgen -W 'yes no' -- "$current")) ;;
	--debug)
		COMPREPLY=($(compgen -W 'target unwind python join sample symbolize pause all' \
			-- "$current"))
		;;
	-p | --pid) COMPREPLY=($(compgen -W "$(pgrep -f python 2>/dev/null)" -- "$current")) ;;
	--core) COMPREPLY=($(compgen -f -- "$current")) ;;
	--sysroot | --symbols) COMPREPLY=($(compgen -d -- "$current")) ;;
	--thread) ;;
	*)
		if [[ $current == -* ]]; then
			COMPREPLY=($(compgen -W "$options" -- "$current"))
			[[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
		else
			COMPREPLY=($(compgen -W "$(pgrep -f python 2>/dev/null)" -- "$current"))
			[[ " ${COMP_WORDS[*]} " == *' --merge '* ]] && COMPREPLY+=($(compgen -f -- "$current"))
		fi
		;;
	esac
}
complete -F _pdump pdump
