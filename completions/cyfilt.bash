# SPDX-License-Identifier: MIT
# Completion of cyfilt(1) for bash.

_cyfilt()
{
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
	local options='-m --module= -s --so= -h --help -V --version'
	# bash splits --so=FILE at "=": then the option stands before it.
	if [[ $current == '=' ]]; then
		current=
	elif [[ $previous == '=' ]]; then
		previous=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	COMPREPLY=()
	case $previous in
	-s | --so) COMPREPLY=($(compgen -f -- "$current")) ;;
	-m | --module) ;;
	*)
		if [[ $current == -* ]]; then
			COMPREPLY=($(compgen -W "$options" -- "$current"))
		fi
		;;
	esac
	if [[ ${COMPREPLY[0]} == *= ]]; then
		compopt -o nospace
	fi
}

complete -F _cyfilt cyfilt
