# test/checked.sh: servers that check themselves as they run (test/build-server sanitize, valgrind).  To be sourced by bash after
# test/lib.sh; a caller sets `work` and `log`.  Sets part_timeout.
#
# Each process writes what it finds to a file of its own in $findings, whatever becomes of its server.

findings=
valgrind_markers=VALGRIND-BEGIN,VALGRIND-END

# prepare_checked: after copy_postgres.  Does nothing for any other server.
prepare_checked() {
	case $("$PG_CONFIG" --cflags) in
		*-fsanitize=*) findings=$log/sanitizers; prepare_sanitizers ;;
		*-DUSE_VALGRIND*) findings=$log/valgrind; prepare_valgrind ;;
		*) return 0 ;;
	esac
	"${RUN[@]}" mkdir "$findings"
	# All is slower by far, and nothing of what is waited for depends on time.
	export PGCTLTIMEOUT=600 PG_TEST_TIMEOUT_DEFAULT=600
	part_timeout=14400
}

# detect_leaks: memory contexts are not freed one by one when a process ends.  detect_stack_use_after_return: variables would lie on the heap,
# where neither PostgreSQL's check of the stack's depth nor its idea of a pointer into the stack holds.
prepare_sanitizers() {
	export ASAN_OPTIONS="detect_leaks=0:detect_stack_use_after_return=0:abort_on_error=1:allocator_may_return_null=1:print_stacktrace=1:log_path=$findings/process"
	export UBSAN_OPTIONS="$ASAN_OPTIONS"
}

# The server's program becomes a script that runs it under valgrind: not initdb's processes, and what only asks for the version.
# Processes that it makes by fork are followed, programs that it calls are not.
prepare_valgrind() {
	local server=$bindir/postgres
	mv "$server" "$server.program"
	cat > "$server" <<-END
		#!/bin/sh
		case \$1 in
			--boot | --single | --check | --version | -V) exec '$server.program' "\$@" ;;
		esac
		exec valgrind --quiet --leak-check=no --num-callers=25 --gen-suppressions=all --error-markers=$valgrind_markers \\
			--suppressions='$("$PG_CONFIG" --sharedir)/valgrind.supp' --log-file='$findings/process.%p' '$server.program' "\$@"
	END
	chmod 755 "$server"
}

# look_for_findings PART: each file with findings counts as a failure: those in $findings, and logs of the part's servers, to which the sanitizer of
# undefined behaviour writes.
look_for_findings() {
	local pattern="^==[0-9]+==|runtime error:|${valgrind_markers%,*}" files file found=0
	[ -n "$findings" ] || return 0
	files=$(grep -rlE "$pattern" "$findings" || true; grep -rlE 'runtime error:|AddressSanitizer' "$log/$1"* 2>/dev/null || true)
	for file in $files; do
		found=$((found + 1))
		say "$1: ${file#"$log/"} has:"
		grep -E -A 40 "$pattern" "$file" | head -n 60
	done
	if [ "$found" = 0 ]; then
		say "$1: no findings"
		count 1 0
	else
		count 0 "$found" 0 "$1: $found files with findings"
	fi
	# What the next part finds is counted for that one.
	find "$findings" -type f -empty -delete
	mv "$findings" "$findings-$1"
	"${RUN[@]}" mkdir "$findings"
}
