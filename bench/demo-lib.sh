# bench/demo-lib.sh: what bench/demo and bench/demo-shards share.  To be sourced by bash, behind
# test/lib.sh.
#
# A caller sets dir, where the demo lies.

# A demo that did not reach its end leaves its log, and no server.
on_exit() {
	local status=$?
	trap - EXIT
	trap : INT TERM HUP
	if [ "$status" != 0 ] && [ -e "$dir/.mtpower-demo" ]; then
		stop_servers
		say "the demo failed; its logs are in $dir"
	fi
	exit "$status"
}

# A directory with our mark that our user owns is removed, any other left alone.
remove_previous() {
	[ -e "$dir" ] || return 0
	[ -f "$dir/.mtpower-demo" ] && { [ -O "$dir" ] || [ "$(stat -c %U "$dir")" = "$worker" ]; } ||
		die "$dir exists and is not a demo's; set DEMO_DIR to another place"
	stop_servers
	rm -rf "$dir"
}

build() {
	say "building mtpower for $("$PG_CONFIG" --version)"
	copy_source "$dir/src"
	copy_postgres "$dir/root"
	if ! { make_quietly "$dir/src" all && make_quietly "$dir/src" install DESTDIR="$dir/root"; } \
		> "$dir/log/build" 2>&1; then
		tail -n 30 "$dir/log/build" >&2
		die "the build failed"
	fi
	rm -rf "$dir/src"
}

least() { if [ "$1" -lt "$2" ]; then echo "$1"; else echo "$2"; fi; }

# The benchmark's settings, cut down to what the machine has.  mtpower's own keep their defaults.
settings() {
	local memory disk
	memory=$(awk '/^MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
	disk=$(df -m --output=avail "$dir" | tail -n 1)
	cat <<-END
		shared_preload_libraries = 'mtpower'
		listen_addresses = ''
		unix_socket_directories = '$dir/socket'
		shared_buffers = $(least 4096 $((memory / 4)))MB
		maintenance_work_mem = $(least 1024 $((memory / 16)))MB
		max_wal_size = $(least 32768 $((disk / 2)))MB
		wal_compression = off
	END
}
