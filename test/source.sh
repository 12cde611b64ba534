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

write_sources() {
	local keys=/usr/share/keyrings/debian-archive-keyring.gpg
	mkdir -p "$work/lists/partial"
	apt-get indextargets --format 'deb-src [signed-by='$keys'] $(REPO_URI) $(RELEASE) main' \
		'Created-By: Packages' 'Origin: Debian' | sort -u > "$work/sources.list"
}

# download_source [MINOR]: sets tarball to a version that can be had: 15.MINOR, or else the newest.  The index may name versions whose files are
# not there any more, or not yet.
download_source() {
	local version versions
	write_sources
	private_apt apt-get update > "$work/source.log" 2>&1 || true
	versions=$(private_apt apt-cache showsrc postgresql-15 2>/dev/null | sed -n 's/^Version: //p' | sort -ru -V)
	for version in $(grep "^15\.${1:-none}-" <<< "$versions") $versions; do
		say "downloading postgresql-15 $version"
		if ( cd "$work" && private_apt apt-get source --download-only --only-source "postgresql-15=$version" ) >> "$work/source.log" 2>&1; then
			tarball=$(ls "$work"/postgresql-15_*.orig.tar.*)
			return 0
		fi
		rm -f "$work"/postgresql-15_*
	done
	tail -n 20 "$work/source.log" >&2
	die "no version of Debian's postgresql-15 source could be downloaded"
}
