/*
 * marker.c
 *	  Binds the pool file to the state of the data directory, at the postmaster's start and end.
 *
 * At the server's end frames are copies of pages as they are on disk.  They are of use to the next
 * server only if nothing has changed the data directory since.  The control file names the last
 * checkpoint, which was the last thing to be done; the marker names the same one.
 */
#include "buffer/buffer.h"
#include "pmem/file.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/timestamp.h"

/* A start looks at images for so long at the most. */
#define START_MS	10000

static int64 deadline;			/* in microseconds of now_us */

static int64
now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64CONST(1000000) + now.tv_nsec / 1000;
}

static bool
is_time_left(void)
{
	return now_us() < deadline;
}

/* ---------- the state of the data directory ---------- */

/* The state that the control file gives.  False if the server was not shut down. */
static bool
read_state(MtpPmemState *state)
{
	bool		right;
	ControlFileData *control = get_controlfile(DataDir, &right);
	struct stat st;
	bool		down = right && control->state == DB_SHUTDOWNED &&
	stat(XLOG_CONTROL_FILE, &st) == 0;

	memset(state, 0, sizeof(*state));
	if (down)
	{
		state->system = control->system_identifier;
		state->checkpoint = control->checkPoint;
		state->redo = control->checkPointCopy.redo;
		state->time = control->checkPointCopy.time;
		state->timeline = control->checkPointCopy.ThisTimeLineID;
		state->file = st.st_ino;
		state->path = hash_bytes((const unsigned char *) DataDir, strlen(DataDir));
		state->server = MTP_SERVER_VERSION;
		state->build = hash_bytes((const unsigned char *) PG_VERSION_STR, strlen(PG_VERSION_STR));
		state->block = BLCKSZ;
		state->nslabs = mtp_pmem.nslabs;
	}
	pfree(control);
	return down;
}

/* ---------- the beginning ---------- */

/* Why nothing can be taken over, or NULL */
static const char *
why_not(MtpMark what, const MtpPmemMarker *marker)
{
	static const char *const signals[] = {STANDBY_SIGNAL_FILE, RECOVERY_SIGNAL_FILE,
	BACKUP_LABEL_FILE};
	const MtpPmemState *then = &marker->state;
	MtpPmemState now;

	if (what == MTP_MARK_WRONG)
		return "its marker is damaged, or of another version";
	/* With one of these the server does not go on where it was shut down: there may be redo. */
	for (int i = 0; i < lengthof(signals); i++)
		if (access(signals[i], F_OK) == 0)
			return psprintf("there is a file \"%s\"", signals[i]);
	if (!read_state(&now))
		return "the server was not shut down properly";
	if (then->system != now.system)
		return "it is of another cluster";
	if (then->file != now.file || then->path != now.path)
		return "it is of another copy of this data directory";
	if (then->server != now.server || then->build != now.build || then->block != now.block)
		return "it is of another build of PostgreSQL";
	if (memcmp(then, &now, sizeof(now)) != 0)
		return "it is of another state of this data directory";
	return NULL;
}

/* The marker goes first of all, whatever it says: frames change from here on (invariant M3). */
static void
take_over(void)
{
	MtpPmemMarker marker;
	MtpMark		what = mtp_pmem_unmark(&mtp_pmem, &marker);
	MtpTaken	taken;
	const char *why;

	if (what == MTP_MARK_NONE)
	{
		ereport(LOG, (errmsg("file \"%s\" has no frames: it is new, or the server before did not end properly", mtp_pmem_path)));
		return;
	}
	why = why_not(what, &marker);
	if (why != NULL)
	{
		ereport(LOG, (errmsg("file \"%s\" is emptied: %s", mtp_pmem_path, why)));
		return;
	}
	deadline = now_us() + START_MS * INT64CONST(1000);
	mtp_pmem_take_over(&mtp_pmem, &mtp_buffer, is_time_left, &taken);
	ereport(LOG,
			(errmsg("took %u of %u frames over from file \"%s\"", taken.taken, marker.sealed,
					mtp_pmem_path),
			 taken.wrong + taken.left == 0 ? 0
			 : errdetail("%u are damaged, and there was no time for %u.", taken.wrong,
						 taken.left)));
}

/* ---------- the end ---------- */

/*
 * The postmaster's last act, if it ends well: all other processes have ended, and what is in the
 * frames is what is on disk.  After an immediate shutdown the control file says that it is not.
 */
static void
at_exit(int code, Datum arg)
{
	MtpPmemState state;
	MtpSealed	sealed;

	if (code != 0 || IsUnderPostmaster || MyProcPid != PostmasterPid || !read_state(&state))
		return;
	deadline = now_us() + mtp_pmem_seal_timeout * INT64CONST(1000);
	mtp_seal_rest(&mtp_pmem, &mtp_buffer, is_time_left, &sealed);
	mtp_seal_mark(&mtp_pmem, &state, sealed.sealed);
	ereport(LOG,
			(errmsg("left %u frames in file \"%s\"", sealed.sealed, mtp_pmem_path),
			 sealed.left == 0 ? 0 : errdetail("There was no time for %u.", sealed.left)));
}

/*
 * Called for each new shared memory.  A second one begins after a crash, and finds the images
 * worthless: words and headers were lost.
 */
void
mtp_pmem_start(void)
{
	static bool begun = false;

	mtp_buffer.copy = mtp_pmem_copy;
	if (IsUnderPostmaster)
		return;
	if (begun)
		ereport(LOG, (errmsg("file \"%s\" is emptied: a process of the server has crashed",
							 mtp_pmem_path)));
	else
		take_over();
	begun = true;
	mtp_buffer_tell();			/* before there are children, each of which would tell it again */
	on_shmem_exit(at_exit, (Datum) 0);
}
