#compdef preport
# SPDX-License-Identifier: MIT
# Completion of preport(1) for zsh.

_arguments -s -S \
	'*'{-o+,--output=}'[write the profile there]:file:_files' \
	'(-f --format)'{-f+,--format=}'[format of the profile]:format:(svg html folded json jsonl speedscope pprof firefox trace cpuprofile markdown)' \
	'--merge[add up several profiles]' \
	'--diff[how the second of two profiles differs from the first]' \
	'--fail-above=[status 1 where a share has grown by more points]:PCT: ' \
	'*--map=[sources in the folder FROM are in TO]:FROM=TO: ' \
	'--symbols=[a folder with files by build ID]:folder:_files -/' \
	'--open[show what was written in a browser]' \
	'--internals[keep the interpreter'\''s own frames]' \
	'(--threads)-t[a root frame for all threads of one name]' \
	'(-t)--threads=-[a root frame for all threads of one name, or for each]::threads:(name each)' \
	'(-F --function)'{-F,--function}'[no line numbers]' \
	'--full-filenames[do not shorten paths]' \
	'--flame[root at the bottom]' \
	'--icicle[root at the top]' \
	'--title=[title of the SVG]:TEXT: ' \
	'--min-width=[leave out boxes below this share]:PCT: ' \
	'--source=[source texts in HTML]:source:(none auto)' \
	'--top=[rows of each table]:N: ' \
	'--focus=[only stacks with such a frame]:REGEX: ' \
	'--ignore=[no stacks with such a frame]:REGEX: ' \
	'--include=[only such frames]:REGEX: ' \
	'--exclude=[no such frames]:REGEX: ' \
	'(-q --quiet)'{-q,--quiet}'[errors only]' \
	'(-v --verbose)'{-v,--verbose}'[more messages]' \
	'*--debug=[much more about one area]:AREA: ' \
	'--no-sandbox[parse files with all rights (debugging)]' \
	'(-h --help)'{-h,--help}'[print a summary of the options]' \
	'(-V --version)'{-V,--version}'[print the version]' \
	'*:profile:_files'
