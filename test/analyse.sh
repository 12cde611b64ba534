# test/analyse.sh: what compilers find by reading the sources.  To be sourced by bash after test/lib.sh; a caller sets `work`, `log`, `source`
# and `top`.
#
# Both analysers believe assertions, on any server: what must hold of a function's arguments is told to them by Assert.  There is no list of findings
# to be ignored.  One of gcc's checkers is off: -Wanalyzer-use-of-uninitialized-value takes an array whose elements a loop sets for one that
# may have none, whatever an assertion says about their number; clang's knows better, and valgrind sees such reads as they happen.
analyser_flags="-std=gnu11 -D_GNU_SOURCE -DUSE_ASSERT_CHECKING=1"
! pkg-config --exists libpmem 2>/dev/null || analyser_flags+=" -DMTP_WITH_PMEM"
gcc_analyser="-O1 -fanalyzer -Wno-analyzer-use-of-uninitialized-value"
clang_analyser="--analyze --analyzer-output text"

# analyse NAME COMMAND...: a file without findings prints nothing.
analyse() {
	local name=$1 files
	shift
	files=$(cd "$source" && ls src/*.c src/*/*.c)
	"${RUN[@]}" env -C "$source" xargs -P "$(nproc)" -I{} sh -c "$* $analyser_flags -Isrc -I'$("$PG_CONFIG" --includedir-server)' -c {} -o /dev/null 2>&1" \
		<<< "$files" > "$log/analyse-$name" || say "the analyser failed" >> "$log/analyse-$name"
	if [ -s "$log/analyse-$name" ]; then
		head -n 60 "$log/analyse-$name"
		say "analysis by $name ... FAILED"
		count 0 1 0 "analysis by $name"
	else
		say "analysis by $name of $(wc -l <<< "$files") files ... ok"
		count 1 0
	fi
}

run_analyse() {
	local clang
	[ -z "${TESTS:-}" ] || return 0
	say "== analyse"
	analyse gcc gcc $gcc_analyser
	if clang=$(find_clang); then
		analyse clang "$clang" $clang_analyser
	else
		say "skipped: there is no clang"
		count 0 0 1
	fi
}
