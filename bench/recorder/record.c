/*
 * record.c
 *	  Writes down which pages a server looks for in the buffer.
 *
 * The part "recorded" copies this file to src/buffer and builds the library with -DMTP_RECORD.
 *
 * A process writes if there is a directory "record" in the data directory when it looks for its
 * first page: to a file by its number, in records of 16 bytes, nanoseconds of the machine's clock
 * and a page as bench/replay has it.
 */
#include "buffer/buffer.h"

#include "miscadmin.h"
#include "storage/ipc.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#define MOST 4096

static struct
{
	uint64		time;
	uint64		page;
}			records[MOST];
static int	nrecords = 0;
static int	file = 0;			/* -1: there is no directory */

static void
flush(int code, Datum arg)
{
	if (write(file, records, nrecords * sizeof(records[0])) < 0)
		elog(LOG, "could not write accesses: %m");
	nrecords = 0;
}

static void
begin(void)
{
	char		path[MAXPGPATH];

	snprintf(path, sizeof(path), "record/%d", MyProcPid);
	file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
	if (file > 0)
		on_proc_exit(flush, 0);
}

void
mtp_record(MtpPageTag tag, int kind)
{
	struct timespec now;
	uint32		block = (uint32) tag.page - 1;

	if (file == 0)
		begin();
	if (file < 0)
		return;
	clock_gettime(CLOCK_MONOTONIC, &now);
	records[nrecords].time = (uint64) now.tv_sec * 1000000000 + now.tv_nsec;
	records[nrecords].page = (uint64) kind << 62 | (tag.page >> 32 & 0x3FFFFFFF) << 32 |
		(kind == MTP_FRAME_INDEX ? block : block / 2);
	if (++nrecords == MOST)
		flush(0, 0);
}
