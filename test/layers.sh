#!/bin/bash
# test/layers.sh: does each subsystem include headers of the layers below it alone?  `make layers` calls this.
#
# The rooms of src/ stand in the table, the lowest first, each with those that it may include.  A room may
# name rooms above its own line alone, so there is no cycle.  src/mtpower.c knows all.
#
# Prints the table, and each #include that it does not allow.  Exit status: 0 if there is none.
set -euo pipefail
cd "$(dirname "$0")/../src"

table="
core:
page:      core
buffer:    core
pmem:      core buffer
wal:       core page buffer
worker:    core
batch:     core page worker
opclass:   core
index:     core wal batch
blink:     core page buffer wal batch opclass index
hash:      core page buffer wal batch opclass index
zone:      core page wal opclass index
btree:     core wal batch index
pagedir:   core page buffer worker
table:     core page buffer batch opclass zone btree pagedir
dirscan:   core buffer pagedir zone
warm:      core buffer worker pagedir
explain:   core buffer batch
"
echo "layers, the lowest first, and what each may include:$table"

awk -v table="$table" '
function fail(what) { print what; bad = 1 }
BEGIN {
	n = split(table, lines, "\n")
	for (i = 1; i <= n; i++) {
		if (split(lines[i], words, /:? +|:$/) == 0 || words[1] == "")
			continue
		room = words[1]
		for (w = 2; w in words; w++) {
			if (words[w] == "")
				continue
			if (!(words[w] in known))
				fail("the table lets " room " include " words[w] ", which does not stand above it")
			allowed[room, words[w]] = 1
		}
		known[room] = 1
	}
}
FNR == 1 {
	room = FILENAME
	sub(/^\.\//, "", room)
	file = room
	if (!sub(/\/[^\/]*$/, "", room))
		room = ""
	if (room != "" && !(room in known))
		fail("src/" file ": " room " is not in the table")
}
/^[ \t]*#[ \t]*include[ \t]*["<]/ {
	split($0, quoted, /["<>]/)
	header = quoted[2]
	if (header ~ /\.\./)
		fail("src/" file ":" FNR ": name \"" header "\" from src/ on")
	if (system("test -f " header) != 0) {
		if (index(header, "/") == 0 && system("test -f ./" room "/" header) == 0)
			fail("src/" file ":" FNR ": name the room of \"" header "\"")
		next
	}
	to = header
	if (!sub(/\/[^\/]*$/, "", to))
		fail("src/" file ":" FNR ": \"" header "\" is in no room")
	else if (room != "" && to != room && !((room, to) in allowed))
		fail("src/" file ":" FNR ": " room " may not include \"" header "\"")
	used[room, to] = 1
}
END {
	for (pair in allowed)
		if (!(pair in used)) {
			split(pair, two, SUBSEP)
			fail("nothing in src/" two[1] " includes " two[2] ": strike it from the table")
		}
	exit bad
}' $(find . -name '*.[ch]' | sort)
echo "no include goes up"
