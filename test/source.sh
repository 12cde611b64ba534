# test/source.sh: PostgreSQL's source, as Debian distributes it.  To be sourced by bash after test/lib.sh; a caller sets `work`, a
# directory that it may write into.

# apt with lists of its own, in which every Debian source of the machine has its deb-src twin: the system's
# sources stay as they are.
private_apt() {
	local program=$1
	shift
	"$program" -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$work/lists" \
		-o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root "$@"
}

# The releases of Debian that have newer majors than the machine's own stand behind those that it has.
write_sources() {
	local keys=/usr/share/keyrings/debian-archive-keyring.gpg type key uri suite part newer
	mkdir -p "$work/lists/partial"
	apt-get indextargets --format 'deb-src [signed-by='$keys'] $(REPO_URI) $(RELEASE) main' \
		'Created-By: Packages' 'Origin: Debian' | sort -u > "$work/sources.list"
	while read -r type key uri suite part; do
		case $suite in *-*) continue ;; esac
		for newer in trixie sid; do say "$type $key $uri $newer $part"; done
	done < "$work/sources.list" | sort -u > "$work/newer.list"
	cat "$work/newer.list" >> "$work/sources.list"
}

# What to fall back on where an index names a version whose files are not there: MAJOR.MINOR and the tarball's SHA-256, as
# its signed description gives it.
older_sources="
	17.11 dd27f2b3c59e73ed14aa3324901242bf69a032a6347805f274e6260322d42979
"

# download_source MAJOR [MINOR]: sets tarball to a version that can be had: MAJOR.MINOR, or else the newest.  The index may name
# versions whose files are not there any more, or not yet.
download_source() {
	local major=$1 version versions
	write_sources
	private_apt apt-get update > "$work/source.log" 2>&1 || true
	versions=$(private_apt apt-cache showsrc "postgresql-$major" 2>/dev/null | sed -n 's/^Version: //p' | sort -ru -V)
	for version in $(grep "^$major\.${2:-none}-" <<< "$versions") $versions; do
		say "downloading postgresql-$major $version"
		if ( cd "$work" && private_apt apt-get source --download-only --tar-only --only-source "postgresql-$major=$version" ) >> "$work/source.log" 2>&1; then
			tarball=$(ls "$work/postgresql-$major"_*.orig.tar.*)
			return 0
		fi
		rm -f "$work/postgresql-$major"_*
	done
	for version in $versions; do
		! download_older "$major" "$version" || return 0
	done
	tail -n 20 "$work/source.log" >&2
	die "no version of Debian's postgresql-$major source could be downloaded"
}

# download_older MAJOR VERSION: the newest of older_sources that lies where VERSION should lie
download_older() {
	local uri minor sum
	uri=$(private_apt apt-get source --print-uris --tar-only --only-source "postgresql-$1=$2" 2>/dev/null | sed -n "s/^'\(.*\)' .*/\1/p")
	[ -n "$uri" ] || return 1
	while read -r minor sum; do
		case $minor in "$1".*) ;; *) continue ;; esac
		say "downloading postgresql-$1 $minor"
		tarball=$work/postgresql-$1_$minor.orig.tar.bz2
		if /usr/lib/apt/apt-helper -o APT::Sandbox::User=root download-file "${uri%/*}/${tarball##*/}" "$tarball" "SHA256:$sum" \
			>> "$work/source.log" 2>&1; then
			return 0
		fi
	done <<< "$older_sources"
	return 1
}
