/*
 * list.c
 *	  Writes and reads the hot list.
 */
#include "warm/list.h"

#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "miscadmin.h"
#include "port/pg_crc32c.h"
#include "storage/fd.h"
#include "utils/timestamp.h"
#include "core/inject.h"

#define CHUNK	(64 * 1024)		/* of the file, in memory */

static pg_crc32c
head_crc(const MtpListHead *head)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, head, offsetof(MtpListHead, crc));
	FIN_CRC32C(crc);
	return crc;
}

/* ---------- writing ---------- */

typedef struct Writer
{
	int			fd;
	uint64		npages;
	bool		failed;			/* errno says why */
	Size		used;
	pg_crc32c	crc;
	char		chunk[CHUNK];
} Writer;

static void
put_out(Writer *w, const void *data, Size size)
{
	if (w->failed || size == 0)
		return;
	errno = 0;
	if (write(w->fd, data, size) != size)
	{
		w->failed = true;
		if (errno == 0)
			errno = ENOSPC;
	}
}

static void
flush_chunk(Writer *w)
{
	put_out(w, w->chunk, w->used);
	w->used = 0;
	if (!w->failed)				/* an interrupt would change errno */
		CHECK_FOR_INTERRUPTS();
}

static void
put_bytes(Writer *w, const void *data, Size size)
{
	if (w->used + size > CHUNK)
		flush_chunk(w);
	memcpy(w->chunk + w->used, data, size);
	w->used += size;
	COMP_CRC32C(w->crc, data, size);
}

static void
put_page(Writer *w, const MtpListPage *page)
{
	put_bytes(w, page, sizeof(*page));
	w->npages++;
}

/* Keeps a page of the earlier list that has no frame, or none yet. */
static void
keep_page(const MtpListPage *page, void *arg)
{
	Writer	   *w = arg;
	MtpLocator	file;

	memset(&file, 0, sizeof(file));
	MtpLocatorSpace(file) = page->space;
	MtpLocatorDatabase(file) = page->dbid;
	MtpLocatorFile(file) = page->file;
	if (!w->failed && w->npages < (uint64) mtp_buffer.pool->nextents * MTP_EXTENT_FRAMES &&
		!mtp_frame_has(&mtp_buffer, mtp_page_tag(file, page->block), page->kind))
		put_page(w, page);
}

static void
write_pages(Writer *w, MtpListHead *head, bool loading)
{
	MtpPool    *pool = mtp_buffer.pool;
	const char *why;
	MtpLearnt  *learnt = palloc(MTP_LEARN_TABLES * sizeof(MtpLearnt));

	INIT_CRC32C(w->crc);
	put_out(w, head, sizeof(*head));	/* room for the head */

	/*
	 * What has no frame yet comes first.  So a page that gets a frame meanwhile comes twice rather
	 * than not at all.
	 */
	if (loading)
		(void) mtp_list_read(keep_page, w, NULL, NULL, &why);

	/* Looks at frames as readers do, without a lock: passes over one that changes meanwhile. */
	for (uint32 frame = 0; frame < pool->nextents * MTP_EXTENT_FRAMES && !w->failed; frame++)
	{
		MtpListPage page = {0};
		MtpPageTag	tag;
		MtpLocator	file;
		int			kind;

		if (!mtp_frame_page(&mtp_buffer, frame, &tag, &kind))
			continue;
		file = mtp_tag_file(tag);
		page.space = MtpLocatorSpace(file);
		page.dbid = MtpLocatorDatabase(file);
		page.file = MtpLocatorFile(file);
		page.block = (uint32) tag.page - 1;
		page.kind = kind;
		page.level = mtp_heat_level(pool->heat[frame], mtp_pool_epoch(pool));
		put_page(w, &page);
	}
	head->npages = w->npages;
	head->nlearnt = mtp_pagedir_learn_save(learnt);
	for (uint32 i = 0; i < head->nlearnt; i++)
		put_bytes(w, &learnt[i], sizeof(MtpLearnt));
	pfree(learnt);
	flush_chunk(w);
	MTP_INJECT("hot_list_half");

	/* The head comes last, with the checksum of all else. */
	FIN_CRC32C(w->crc);
	head->rest_crc = w->crc;
	head->crc = head_crc(head);
	if (!w->failed && lseek(w->fd, 0, SEEK_SET) != 0)
		w->failed = true;
	put_out(w, head, sizeof(*head));
}

void
mtp_list_write(bool loading)
{
	MtpListHead head = {
		.magic = MTP_LIST_MAGIC,.version = MTP_LIST_VERSION,.block = BLCKSZ,
		.system = GetSystemIdentifier(),.time = GetCurrentTimestamp()
	};
	Writer	   *w = palloc0(sizeof(Writer));

	w->fd = OpenTransientFile(MTP_LIST_TEMPORARY, O_CREAT | O_TRUNC | O_WRONLY | PG_BINARY);
	if (w->fd < 0)
		w->failed = true;
	else
	{
		int			save_errno;

		write_pages(w, &head, loading);
		save_errno = errno;
		if (CloseTransientFile(w->fd) != 0 && !w->failed)
			w->failed = true;
		else
			errno = save_errno;
	}
	if (w->failed)
		ereport(LOG, (errcode_for_file_access(),
					  errmsg("could not write file \"%s\": %m", MTP_LIST_TEMPORARY)));
	MTP_INJECT("hot_list_written");

	/* This makes the file durable before it renames it, and logs what fails (invariant W2). */
	if (w->failed || durable_rename(MTP_LIST_TEMPORARY, MTP_LIST_FILE, LOG) != 0)
		(void) unlink(MTP_LIST_TEMPORARY);
	pfree(w);
}

/* ---------- reading ---------- */

typedef struct Reader
{
	int			fd;
	Size		from;
	Size		to;
	pg_crc32c	crc;
	char		chunk[CHUNK];
} Reader;

/* Reads the next bytes.  Returns false if there are none or they cannot be read. */
static bool
get_bytes(Reader *r, void *data, Size size)
{
	while (r->to - r->from < size)
	{
		ssize_t		n;

		memmove(r->chunk, r->chunk + r->from, r->to - r->from);
		r->to -= r->from;
		r->from = 0;
		n = read(r->fd, r->chunk + r->to, CHUNK - r->to);
		if (n <= 0)
			return false;
		r->to += n;
		CHECK_FOR_INTERRUPTS();
	}
	memcpy(data, r->chunk + r->from, size);
	r->from += size;
	COMP_CRC32C(r->crc, data, size);
	return true;
}

static const char *
read_pages(Reader *r, const MtpListHead *head, void (*page) (const MtpListPage *page, void *arg),
		   void *arg, MtpLearnt *learnt)
{
	INIT_CRC32C(r->crc);
	for (uint64 i = 0; i < head->npages; i++)
	{
		MtpListPage p;

		if (!get_bytes(r, &p, sizeof(p)) || p.kind >= MTP_POOL_KINDS || p.level > MTP_HEAT_MOST ||
			p.file == 0 || p.block == InvalidBlockNumber)
			return "it is damaged";
		page(&p, arg);
	}
	for (uint32 i = 0; i < head->nlearnt; i++)
	{
		MtpLearnt	l;

		if (!get_bytes(r, &l, sizeof(l)))
			return "it is damaged";
		if (learnt != NULL)
			learnt[i] = l;
	}
	FIN_CRC32C(r->crc);
	return r->crc == head->rest_crc ? NULL : "it is damaged";
}

bool
mtp_list_read(void (*page) (const MtpListPage *page, void *arg), void *arg, MtpLearnt *learnt,
			  int *nlearnt, const char **why)
{
	Reader	   *r;
	MtpListHead head;
	struct stat st;
	int			fd = OpenTransientFile(MTP_LIST_FILE, O_RDONLY | PG_BINARY);

	if (fd < 0)
	{
		*why = errno == ENOENT ? NULL : "it can't be opened";
		return false;
	}
	r = palloc0(sizeof(Reader));
	r->fd = fd;

	/* The file must be ours, and have all that its head claims (invariant W3). */
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < sizeof(head) ||
		!get_bytes(r, &head, sizeof(head)) || head.magic != MTP_LIST_MAGIC)
		*why = "it is no hot list";
	else if (head.version != MTP_LIST_VERSION)
		*why = "it is of another version of mtpower";
	else if (head.crc != head_crc(&head))
		*why = "it is damaged";
	else if (head.block != BLCKSZ)
		*why = "it is of a server with another block size";
	else if (head.system != GetSystemIdentifier())
		*why = "it is of another cluster";
	else if (head.nlearnt > MTP_LEARN_TABLES || head.npages > st.st_size / sizeof(MtpListPage) ||
			 st.st_size != sizeof(head) + head.npages * sizeof(MtpListPage) +
			 head.nlearnt * sizeof(MtpLearnt))
		*why = "it is damaged";
	else
		*why = read_pages(r, &head, page, arg, learnt);
	if (*why == NULL && nlearnt != NULL)
		*nlearnt = head.nlearnt;
	CloseTransientFile(fd);
	pfree(r);
	return *why == NULL;
}
