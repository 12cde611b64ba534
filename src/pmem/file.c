/*
 * file.c
 *	  Opens, locks and maps the pool file.
 *
 * The postmaster does this once, before there is shared memory.  Its children inherit the mapping,
 * at the same address, and the lock, which goes with the last of them.  After a crash of one child
 * both stay as they are.
 */
#include "pmem/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "miscadmin.h"
#include "portability/instr_time.h"

MtpPmem		mtp_pmem;
char	   *mtp_pmem_path = NULL;
int			mtp_pmem_size = 0;
int			mtp_pmem_seal_timeout = 10000;
int			mtp_pmem_seal_after = 60;

/* Processes of a server that has just ended, such as its logger, keep the lock for a moment. */
#define LOCK_TRIES		60
#define LOCK_WAIT_US	50000

#define TMPFS			0x01021994

/* Leaves a file that is of no use as it is.  Frames then live in shared memory. */
static void
refuse(int fd, const char *why)
{
	if (fd >= 0)
		close(fd);
	memset(&mtp_pmem, 0, sizeof(mtp_pmem));
	ereport(WARNING,
			(errmsg("mtpower does not use file \"%s\": %s", mtp_pmem_path, why),
			 errdetail("Frames live in shared memory, of the size of \"mtpower.buffer_size\", and are gone when the server stops.")));
}

/* Opens the file, or makes it.  FATAL if that cannot be: the setting is wrong. */
static int
open_file(struct stat *st)
{
	int			fd;

	if (!is_absolute_path(mtp_pmem_path))
		ereport(FATAL,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"mtpower.pmem_path\" is not an absolute path: \"%s\"", mtp_pmem_path)));
	fd = open(mtp_pmem_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, S_IRUSR | S_IWUSR);
	if (fd < 0 || fstat(fd, st) != 0)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", mtp_pmem_path),
				 errhint("\"mtpower.pmem_path\" names a file, which is made where it does not exist, in a directory that does.")));
	if (!S_ISREG(st->st_mode))
		ereport(FATAL,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a regular file", mtp_pmem_path),
				 errhint("\"mtpower.pmem_path\" names a file on a file system of persistent memory.")));
	return fd;
}

/*
 * True if the file is a pool file, or empty, or zero at its beginning; *header is what it says of
 * itself.  If false the file belongs to something else, and nothing may be written to it.
 */
static bool
is_ours(int fd, MtpPmemFileHeader *header)
{
	char		page[MTP_PMEM_HEADERS_AT] = {0};
	ssize_t		n = pread(fd, page, sizeof(page), 0);

	memcpy(header, page, sizeof(*header));
	if (n == sizeof(page) && header->magic == MTP_PMEM_MAGIC)
		return true;
	for (ssize_t i = 0; i < n; i++)
		if (page[i] != 0)
			return false;
	return n >= 0;
}

/*
 * Maps the file for so many slabs, unless the kernel writes its pages back to a disk: a process
 * that writes to a page then waits until the kernel has written it, and meanwhile keeps a page of
 * the database locked.
 */
static bool
map_file(int fd, const struct stat *st, uint32 slabs, Size slack)
{
	MtpMedia   *media = &mtp_pmem.media;
	struct statfs fs;
	const char *why;

	if (mtp_media_map(media, mtp_pmem_path, mtp_pmem_bytes(slabs, slack), &why))
	{
		if (media->is_pmem || (fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS))
		{
			mtp_pmem_lay_out(&mtp_pmem, slabs);
			return true;
		}
		mtp_media_unmap(media);
		why = "it is neither on persistent memory nor on tmpfs";
	}
	/* A file that had nothing in it must take no room. */
	if (st->st_size == 0 && ftruncate(fd, 0) != 0)
		ereport(LOG, (errcode_for_file_access(),
					  errmsg("could not truncate file \"%s\": %m", mtp_pmem_path)));
	refuse(fd, why);
	return false;
}

uint32
mtp_pmem_open(uint32 default_slabs, Size slack)
{
	MtpPmem    *file = &mtp_pmem;
	uint32		slabs = mtp_pmem_size > 0 ? mtp_pmem_size : default_slabs;
	struct stat st;
	struct stat now;
	MtpPmemFileHeader header;
	int			fd;
	int			tries = 0;

	if (mtp_pmem_path == NULL || mtp_pmem_path[0] == '\0' || !IsPostmasterEnvironment)
		return default_slabs;
	if (!mtp_media_built())
	{
		refuse(-1, "mtpower was built without libpmem");
		return default_slabs;
	}
	fd = open_file(&st);
	while (flock(fd, LOCK_EX | LOCK_NB) != 0)
	{
		if (++tries == LOCK_TRIES)
		{
			refuse(fd, "another server has locked it");
			return default_slabs;
		}
		pg_usleep(LOCK_WAIT_US);
	}

	/* No other server writes to the file from here on: what it says now stays. */
	if (fstat(fd, &st) != 0 || !is_ours(fd, &header))
		refuse(fd, "it has been made by something else");
	else if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IRWXO)) != 0)
		refuse(fd, "it belongs to another user, or others have rights to it");
	else if (map_file(fd, &st, slabs, slack))
	{
		/* What was locked was opened by name, and so was what is mapped. */
		if (stat(mtp_pmem_path, &now) == 0 && now.st_dev == st.st_dev && now.st_ino == st.st_ino)
		{
			if (st.st_size != file->media.size || header.layout != MTP_PMEM_LAYOUT ||
				header.nslabs != slabs)
			{
				if (st.st_size != 0)
					ereport(LOG,
							(errmsg("file \"%s\" has another size or layout, and is emptied",
									mtp_pmem_path),
							 errdetail("It has %lld bytes, room for %u slabs, layout %u, instead of %zu, %u, %u.",
									   (long long) st.st_size, header.nslabs, header.layout,
									   file->media.size, slabs, MTP_PMEM_LAYOUT)));
				mtp_pmem_format(file);
			}
			ereport(LOG,
					(errmsg("frames live in \"%s\", %u MB%s", mtp_pmem_path, slabs,
							file->media.is_pmem ? ", persistent memory" : "")));
			return slabs;
		}
		mtp_media_unmap(&file->media);
		refuse(fd, "it has been replaced meanwhile");
	}
	return default_slabs;
}
