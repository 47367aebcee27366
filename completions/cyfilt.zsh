#compdef cyfilt
# SPDX-License-Identifier: MIT
# Completion of cyfilt(1) for zsh.

_arguments -s -S \
	'(-m --module)'{-m+,--module=}'[extension module that the names are of]:module: ' \
	'(-s --so)'{-s+,--so=}'[file of the extension module]:file:_files' \
	'(-h --help)'{-h,--help}'[list the options]' \
	'(-V --version)'{-V,--version}'[print the version]' \
	'*:name: '
