# SPDX-License-Identifier: MIT
# Completion of precord(1) for bash.

_precord()
{
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} i
	local options='-p --pid= -s --subprocesses --cgroup= --native-processes= -o --output= -f --format= -r --rate= -d --duration= -n --native
		-i --idle -g --gil --mode= --thread= --native-threads= --internals --kernel --nonblocking
		-t --threads -F --function --full-filenames --color= --flame --icicle --title= --min-width=
		--focus= --ignore= --include= --exclude= --source= --snapshot= --open
		--capture= --join= --unwinder= --stop= -q --quiet -v --verbose --debug= --no-sandbox -h --help
		-V --version'
	# Behind "--" stands a command of its own.
	for ((i = 1; i < COMP_CWORD; i++)); do
		if [[ ${COMP_WORDS[i]} == -- ]]; then
			if declare -F _command_offset >/dev/null; then
				_command_offset $((i + 1))
			elif ((COMP_CWORD == i + 1)); then
				COMPREPLY=($(compgen -c -- "$current"))
			else
				COMPREPLY=($(compgen -f -- "$current"))
			fi
			return
		fi
	done
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
	--stop) COMPREPLY=($(compgen -W 'auto interrupt cpu ptrace' -- "$current")) ;;
	--unwinder) COMPREPLY=($(compgen -W 'snapshot ptrace' -- "$current")) ;;
	--threads) COMPREPLY=($(compgen -W 'name each' -- "$current")) ;;
	--cgroup) COMPREPLY=($(compgen -W 'self' -- "$current") $(compgen -d -- "$current")) ;;
	--native-threads | --native-processes) COMPREPLY=($(compgen -W 'yes no' -- "$current")) ;;
	--mode) COMPREPLY=($(compgen -W 'running wall cpu gil' -- "$current")) ;;
	-f | --format)
		COMPREPLY=($(compgen -W 'svg html folded json jsonl speedscope pprof firefox trace cpuprofile markdown' \
			-- "$current"))
		;;
	--source) COMPREPLY=($(compgen -W 'none auto' -- "$current")) ;;
	-r | --rate) COMPREPLY=($(compgen -W '10 100 250 1khz' -- "$current")) ;;
	--debug)
		COMPREPLY=($(compgen -W 'target unwind python join sample symbolize pause all' \
			-- "$current"))
		;;
	-o | --output | --capture)
		compopt -o filenames
		COMPREPLY=($(compgen -f -- "$current"))
		;;
	-p | --pid) COMPREPLY=($(compgen -W "$(pgrep -f python 2>/dev/null)" -- "$current")) ;;
	-d | --duration | --thread | --title | --min-width) ;;
	*)
		if [[ $current == -* ]]; then
			COMPREPLY=($(compgen -W "$options" -- "$current"))
			[[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
		else
			COMPREPLY=($(compgen -W "$(pgrep -f python 2>/dev/null)" -- "$current"))
		fi
		;;
	esac
}
complete -F _precord precord
