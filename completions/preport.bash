# SPDX-License-Identifier: MIT
# Completion of preport(1) for bash.

_preport()
{
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
	local options='-o --output= -f --format= --merge --diff --fail-above= --map= --symbols= --open --internals -t --threads -F --function
		--full-filenames --flame --icicle --title= --min-width= --source= --top= --focus= --ignore=
		--include= --exclude= -q --quiet -v --verbose --debug= --no-sandbox -h --help -V --version'
	# bash splits --format=svg at "=": then the option stands before it.
	if [[ $current == '=' ]]; then
		current=
	elif [[ $previous == '=' ]]; then
		previous=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	COMPREPLY=()
	case $previous in
	-f | --format) COMPREPLY=($(compgen -W 'svg html folded json jsonl speedscope pprof firefox trace cpuprofile markdown' -- "$current")) ;;
	--symbols) COMPREPLY=($(compgen -d -- "$current")) ;;
	--source) COMPREPLY=($(compgen -W 'none auto' -- "$current")) ;;
	--threads) COMPREPLY=($(compgen -W 'name each' -- "$current")) ;;
	--title | --min-width | --fail-above | --map | --top | --focus | --ignore | --include | --exclude | --debug) ;;
	*)
		if [[ $current == -* ]]; then
			COMPREPLY=($(compgen -W "$options" -- "$current"))
		else
			compopt -o filenames
			COMPREPLY=($(compgen -f -- "$current"))
		fi
		;;
	esac
	if [[ ${COMPREPLY[0]} == *= ]]; then
		compopt -o nospace
	fi
}

complete -F _preport preport
