# test/lib.sh: what test/run, test/build-server and bench/demo share.  To be sourced by bash.
#
# A caller sets, before it calls anything:
#   top        the source tree
#   PG_CONFIG  the pg_config of the PostgreSQL to use; may be unset (see find_postgres)

say() { printf '%s\n' "$@"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# Everything below runs in one locale and connects where it says, whatever the caller's environment
# is.
export LC_ALL=C
# What a program leaks when it ends is no matter (test/build-server sanitize; pg_config would fail).
export ASAN_OPTIONS=detect_leaks=0
unset LANGUAGE PGHOST PGPORT PGUSER PGDATABASE PGOPTIONS PGSERVICE PGSSLMODE PGDATA

# Sets PG_CONFIG, unless the caller did: Debian's PostgreSQL 15, else the one in PATH.
find_postgres() {
	[ -z "${PG_CONFIG:-}" ] || return 0
	PG_CONFIG=/usr/lib/postgresql/15/bin/pg_config
	[ -x "$PG_CONFIG" ] || [ -e /etc/debian_version ] ||
		PG_CONFIG=$(command -v pg_config) || PG_CONFIG=pg_config
}

# major_of PG_CONFIG: the release, as 15
major_of() { "$1" --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/'; }

# Prints the Debian packages that provide what is missing here, if anything is.
missing_packages() {
	command -v gcc >/dev/null && command -v make >/dev/null || echo build-essential
	[ -e /usr/include/stdio.h ] || echo build-essential
	command -v xz >/dev/null || echo xz-utils
	perl -MIPC::Run -MTest::More -MTAP::Harness -e1 2>/dev/null || echo libipc-run-perl perl
	[ "$PG_CONFIG" = /usr/lib/postgresql/15/bin/pg_config ] || return 0
	[ -x /usr/lib/postgresql/15/bin/postgres ] || echo postgresql-15
	[ -e /usr/include/postgresql/15/server/postgres.h ] || echo postgresql-server-dev-15
}

# install_missing [PACKAGE...]: installs what is missing, and these where they can be had.  It takes
# root and a Debian.  The server package would create and start a cluster of its own, on the default
# port: it is told not to, for as long as this takes.
install_missing() {
	local packages conf=/etc/postgresql-common/createcluster.d/mtpower-build.conf
	packages=$(missing_packages | sort -u | tr '\n' ' ')
	# Without libpmem mtpower is built without what needs it, and tests of that are skipped.
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		pkg-config --exists libpmem 2>/dev/null || packages+="libpmem-dev pkg-config "
		[ $# = 0 ] || apt_install "$@" > "$work/apt.log" 2>&1 || true
	fi
	if [ -n "$packages" ]; then
		[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null ||
			die "missing here: ${packages% } (run this as root on Debian, or install them)"
		say "installing $packages"
		case $packages in *postgresql-15*)
			mkdir -p "${conf%/*}"
			echo 'create_main_cluster = false' > "$conf" ;;
		esac
		if ! apt_install $packages > "$work/apt.log" 2>&1; then
			rm -f "$conf"
			tail -n 20 "$work/apt.log" >&2
			die "apt-get could not install $packages"
		fi
		rm -f "$conf"
	fi
	"$PG_CONFIG" --version >/dev/null || die "cannot run \"$PG_CONFIG\""
}

apt_install() {
	export DEBIAN_FRONTEND=noninteractive
	apt-get update && apt-get install -y --no-install-recommends "$@"
}

# Has the server assertions, and so injection points?
has_injection_points() {
	grep -q '^#define USE_ASSERT_CHECKING' "$("$PG_CONFIG" --includedir-server)/pg_config.h"
}

# Sets RUN, the prefix of commands that must not run as root, and worker, the user they run as:
# servers refuse to run as root.  The user is made when it is not there, and stays.  (It is not
# called mtpower: a database role of that name would have the extension's schema as its "$user"
# schema.)
choose_user() {
	RUN=()
	worker=$(id -un)
	if [ "$(id -u)" = 0 ]; then
		worker=mtptest
		id "$worker" >/dev/null 2>&1 ||
			useradd --system --user-group --no-create-home --home-dir /nonexistent \
				--shell /usr/sbin/nologin "$worker"
		RUN=(setpriv --reuid="$worker" --regid="$worker" --init-groups --)
	fi
}

# copy_source DIR: copies the source tree to DIR, without what was built in it, unless OBJECTS is
# set.
copy_source() {
	local built=(--exclude='*.o' --exclude='*.so')
	[ -z "${OBJECTS:-}" ] || built=()
	mkdir "$1"
	tar -C "$top" -cf - --exclude=./.git "${built[@]}" \
		--exclude='*.bc' \
		--exclude=./results --exclude=./output_iso --exclude=./tmp_check --exclude=./log . |
		tar -C "$1" -xf - --no-same-owner
	[ "$(id -u)" != 0 ] || chown -R "$worker:$worker" "$1"
}

# copy_postgres DIR: copies PostgreSQL's programs, libraries and shared files to below DIR.  A
# server finds its libraries and extensions relative to its own program, so the copy can have
# mtpower installed in it (make install DESTDIR=DIR) while the original stays as it is.  Sets
# bindir, pkglibdir and pgxs to the copy's.
copy_postgres() {
	local what dir
	for what in bindir pkglibdir sharedir; do
		dir=$("$PG_CONFIG" --$what)
		mkdir -p "$1$dir"
		cp -a "$dir/." "$1$dir/"
	done
	bindir=$1$("$PG_CONFIG" --bindir)
	pkglibdir=$1$("$PG_CONFIG" --pkglibdir)
	pgxs=$pkglibdir/pgxs
	[ "$(id -u)" != 0 ] || chown -R "$worker:$worker" "$1"
}

# make_quietly DIR ARGS...: runs make in DIR as the worker, without what an outer make passed on.
make_quietly() {
	local dir=$1
	shift
	"${RUN[@]}" env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS \
		make -C "$dir" -j "$(nproc)" PG_CONFIG="$PG_CONFIG" with_llvm=no "$@"
}

# stop_servers: ends the servers whose data directories lie below $work, if any are left.
stop_servers() {
	local file pid
	for file in $(find "$work" -name postmaster.pid 2>/dev/null); do
		pid=$(head -n 1 "$file" 2>/dev/null) || continue
		[ "$(readlink "/proc/$pid/cwd")" = "${file%/*}" ] || continue
		kill -QUIT "$pid" || continue
		timeout 10 tail --pid="$pid" -f /dev/null || true
	done
}
