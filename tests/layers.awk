# Fails when a file includes a header that its folder may not use: layers.txt names folders, or single
# headers of one.
NR == FNR { sub(/#.*/, ""); split($0, line, ":"); allowed[line[1]] = " " line[1] line[2] " "; next }
/^[ \t]*#[ \t]*include[ \t]*"/ {
	split($0, quoted, "\""); slash = split(quoted[2], to, "/"); split(FILENAME, from, "/")
	if (slash < 2)
		next # generated, in the build folder
	if (!index(allowed[from[1]], " " to[1] " ") && !index(allowed[from[1]], " " quoted[2] " ")) {
		printf "%s:%d: %s/ may not include %s\n", FILENAME, FNR, from[1], quoted[2]
		bad = 1
	}
}
END { exit bad }
