# Reads tests/layers.txt, then `nm -A` of the object files. Fails when a file calls (or otherwise
# names a symbol of) a folder that its own folder may not use, and when files of one folder call one
# another in a circle.
function folder_of(file) { return substr(file, 1, index(file, "/") - 1) }

# Are there calls that lead from one file to the other?
function reaches(from, to,    names, count, i) {
	if (from == to)
		return 1
	seen[from] = 1
	count = split(callees[from], names, " ")
	for (i = 1; i <= count; i++)
		if (!(names[i] in seen) && reaches(names[i], to))
			return 1
	return 0
}

NR == FNR {
	sub(/#.*/, "")
	split($0, line, ":")
	allowed[line[1]] = " " line[1] line[2] " "
	next
}
{
	file = $1
	sub(/:.*/, "", file)
	sub(/^[^\/]*\//, "", file) # the build folder
	sub(/\.o$/, ".c", file)
	kind = $(NF - 1)
	if (kind ~ /U$/) {
		user[++uses] = file
		used[uses] = $NF
	} else if (kind ~ /[TDRBVW]$/) {
		home[$NF] = file
	}
}
END {
	for (i = 1; i <= uses; i++) {
		from = user[i]
		to = home[used[i]]
		if (to == "" || to == from)
			continue
		own = allowed[folder_of(from)]
		header = to
		sub(/\.c$/, ".h", header)
		if (folder_of(from) == folder_of(to)) {
			if (!((from, to) in arrow))
				callees[from] = callees[from] " " to
			arrow[from, to] = used[i]
		} else if (!index(own, " " folder_of(to) " ") && !index(own, " " header " ")) {
			printf "%s may not call %s() of %s\n", from, used[i], to
			bad = 1
		}
	}
	for (pair in arrow) {
		split(pair, ends, SUBSEP)
		split("", seen)
		if (!reaches(ends[2], ends[1]))
			continue
		printf "a circle: %s calls %s() of %s\n", ends[1], arrow[pair], ends[2]
		bad = 1
	}
	exit bad
}
