/*
 * list.h
 *	  The hot list: a file that says which pages had frames, how warm they were, and which columns directories were made of.
 *
 *	  MtpListHead
 *	  MtpListPage		npages of them, in no order; may name a page twice
 *	  MtpLearnt			nlearnt of them, in no order
 *
 * It is written beside its place, made durable, and renamed.  Whatever is in it, nothing comes of it but pages that are read and not needed: a page is loaded under its relation's lock, from the
 * relation.
 */
#ifndef MTP_WARM_LIST_H
#define MTP_WARM_LIST_H

#include "core/core.h"

#include "buffer/buffer.h"
#include "pagedir/learn.h"

/* In the data directory.  A base backup takes them along, and so does pg_rewind: they name the same pages there. */
#define MTP_LIST_FILE		"mtpower.hot"
#define MTP_LIST_TEMPORARY	"mtpower.hot.tmp"

#define MTP_LIST_MAGIC		UINT64CONST(0x7473694c74486d50)

/* Another one for whatever changes below */
#define MTP_LIST_VERSION	1

typedef struct MtpListHead
{
	uint64		magic;
	uint32		version;
	uint32		block;			/* BLCKSZ */
	uint64		system;			/* identifier of the cluster */
	int64		time;			/* when it was written */
	uint64		npages;
	uint32		nlearnt;
	uint32		rest_crc;		/* of all behind the head */
	uint32		unused;
	uint32		crc;			/* of the head */
} MtpListHead;

typedef struct MtpListPage
{
	Oid			space;
	Oid			dbid;
	Oid			file;
	BlockNumber block;			/* of a pair, the first one */
	uint8		kind;			/* MTP_FRAME_*, of the frame */
	uint8		level;			/* of heat, when it was written */
	uint16		unused;
} MtpListPage;

StaticAssertDecl(sizeof(MtpListHead) == 56 && sizeof(MtpListPage) == 20 && sizeof(MtpLearnt) == 60, "no padding: it is summed up as it is");

/*
 * Writes what the buffer has now; while pages are being loaded, also what the list of before has that the buffer has not, as much again as the buffer could have at the most.  Can be interrupted: then it is an unfinished file beside the list that is left.  False, and a line in the log, if that fails; then the file is what it was.
 */
extern bool mtp_list_write(bool loading);

typedef enum MtpListRead
{
	MTP_LIST_GOOD,
	MTP_LIST_MISSING,
	MTP_LIST_WRONG
} MtpListRead;

/*
 * Reads the file.  Each page is given to `page`, in no order, whether or not the rest turns out to be right: what it collects counts only if this returns MTP_LIST_GOOD.  learnt: room for
 * MTP_LEARN_TABLES, or NULL; *nlearnt of them.  If it is wrong, *why says so.  Can be interrupted.
 */
extern MtpListRead mtp_list_read(void (*page) (const MtpListPage *page, void *arg), void *arg, MtpLearnt *learnt, int *nlearnt, const char **why);

/*
 * Of the pages of a list the buffer has room for those of this level and above, the last level not as a whole.  Filled by mtp_choice_add, for each page.
 */
typedef struct MtpChoice
{
	uint64		bytes[MTP_HEAT_MOST + 1];
} MtpChoice;

extern void mtp_choice_add(MtpChoice *choice, const MtpListPage *page);
extern int	mtp_choice_least(const MtpChoice *choice);

#endif							/* MTP_WARM_LIST_H */
