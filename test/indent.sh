#!/bin/bash
# test/indent.sh              formats the C sources as pgindent does: `make pgindent`
# test/indent.sh --check      says which files are not formatted so, and where
# test/indent.sh --typedefs   adds to test/typedefs.list what the debug information of a build has: call it with a build for each
#                             release
#
# It calls Debian 12's pg_bsd_indent with pgindent's options, but lets lines be 100 columns long.  Lines that
# are longer are an error as well, which no tool mends; but texts of messages are not broken.
# Exit status: 0 all is well, 1 something is not, 2 there is no such pg_bsd_indent: later ones format otherwise.
set -euo pipefail
cd "$(dirname "$0")/.."

export LC_ALL=C
columns=100
options="-bad -bap -bbb -bc -bl -cli1 -cp33 -cdb -nce -d0 -di12 -nfc1 -i4 -l$columns -lp -lpl -nip -npro -sac
	-tpg -ts4"

typedefs() {
	{
		echo RADIX_ELEMENT		# which src/batch/radix.h is given
		cat test/typedefs.list
		readelf --debug-dump=info $(find src -name '*.o') 2>/dev/null |
			awk '/DW_TAG_/ { typedef = /DW_TAG_typedef/ }
				typedef && /DW_AT_name/ { print $NF; typedef = 0 }'
	} | sort -u |
		grep -Fxf <(grep -ohE '\b[A-Za-z_]\w*\b' $(find src -name '*.[ch]') | sort -u)
}

# formatted FILE: as it must be.  Around pg_bsd_indent it does what pgindent does: drawings, which are
# comments that begin with dashes, stay as they are, and a function's type has one space.
formatted() {
	sed 's#/\* \+---#/*---X_X#' "$1" | pg_bsd_indent $options -Utest/typedefs.list |
		sed -E 's#/\*---X_X#/* ---#; s#^([A-Za-z_][^ \t]*)[ \t]+\*$#\1 *#; s#\*/(/\*.*\*/)$#*/\t\1#'
}

case ${1:-} in
	--typedefs) list=$(typedefs); printf '%s\n' "$list" > test/typedefs.list; exit 0 ;;
esac
version=2.1.1
[[ $(pg_bsd_indent --version 2> /dev/null) == *" $version "* ]] || { echo "there is no pg_bsd_indent $version" >&2; exit 2; }

new=$(mktemp)
trap 'rm -f "$new"' EXIT
status=0
for file in $(find src -name '*.[ch]' | sort); do
	formatted "$file" > "$new"
	if [ "${1:-}" != --check ]; then
		cmp -s "$new" "$file" || cat "$new" > "$file"
	elif ! diff -u --label "$file" --label "$file, formatted" "$file" "$new"; then
		status=1
	fi
	expand -t 4 "$file" | awk -v file="$file" -v most=$columns '
		length($0) > most && !(match($0, /".*"/) && RLENGTH > 40) { print file ":" NR ": " length($0) " columns"; bad = 1 }
		END { exit bad }' || status=1
done
exit $status
