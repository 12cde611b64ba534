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

static pg_crc32c
header_crc(const MtpListHeader *header)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, header, offsetof(MtpListHeader, crc));
	FIN_CRC32C(crc);
	return crc;
}

/* ---------- writing ---------- */

typedef struct Writer
{
	FILE	   *file;
	int			error;			/* errno of the first failure, after which nothing is written */
	uint64		npages;
	pg_crc32c	crc;
} Writer;

static void
put_bytes(Writer *w, const void *data, Size size)
{
	errno = 0;
	if (w->error == 0 && fwrite(data, size, 1, w->file) != 1)
		w->error = errno != 0 ? errno : ENOSPC;
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
	if (w->error == 0 && w->npages < (uint64) mtp_buffer.policy->nslabs * MTP_SLAB_FRAMES &&
		!mtp_frame_has(&mtp_buffer, mtp_page_tag(file, page->block), page->kind))
		put_page(w, page);
}

static void
write_pages(Writer *w, bool loading)
{
	MtpPolicy  *policy = mtp_buffer.policy;
	MtpLearnt  *learnt = palloc(MTP_LEARN_TABLES * sizeof(MtpLearnt));
	MtpListHeader header = {
		.magic = MTP_LIST_MAGIC,.version = MTP_LIST_VERSION,.block = BLCKSZ,
		.system = GetSystemIdentifier(),.time = GetCurrentTimestamp()
	};
	const char *why;

	put_bytes(w, &header, sizeof(header));	/* room for the header */
	INIT_CRC32C(w->crc);

	/*
	 * What has no frame yet comes first.  So a page that gets a frame meanwhile comes twice rather
	 * than not at all.
	 */
	if (loading)
		(void) mtp_list_read(keep_page, w, NULL, NULL, &why);

	/* Looks at frames as readers do, without a lock: passes over one that changes meanwhile. */
	for (uint32 frame = 0; frame < policy->nslabs * MTP_SLAB_FRAMES && w->error == 0; frame++)
	{
		MtpListPage page = {0};
		MtpPageTag	tag;
		MtpLocator	file;
		int			kind;

		CHECK_FOR_INTERRUPTS();
		if (!mtp_frame_page(&mtp_buffer, frame, &tag, &kind))
			continue;
		file = mtp_tag_file(tag);
		page.space = MtpLocatorSpace(file);
		page.dbid = MtpLocatorDatabase(file);
		page.file = MtpLocatorFile(file);
		page.block = (uint32) tag.page - 1;
		page.kind = kind;
		page.degree = mtp_heat_degree(policy->heat[frame], mtp_policy_epoch(policy));
		put_page(w, &page);
	}
	header.npages = w->npages;
	header.nlearnt = mtp_pagedir_learn_save(learnt);
	for (uint32 i = 0; i < header.nlearnt; i++)
		put_bytes(w, &learnt[i], sizeof(MtpLearnt));
	pfree(learnt);
	if (w->error == 0 && fflush(w->file) != 0)
		w->error = errno != 0 ? errno : ENOSPC;
	MTP_INJECT("hot_list_half");

	/* The header comes last, with the checksum of all else. */
	FIN_CRC32C(w->crc);
	header.rest_crc = w->crc;
	header.crc = header_crc(&header);
	if (w->error == 0 && fseek(w->file, 0, SEEK_SET) != 0)
		w->error = errno != 0 ? errno : ENOSPC;
	put_bytes(w, &header, sizeof(header));
}

void
mtp_list_write(bool loading)
{
	Writer		w = {.file = AllocateFile(MTP_LIST_TEMPORARY, PG_BINARY_W)};

	if (w.file == NULL)
		w.error = errno;
	else
	{
		write_pages(&w, loading);
		if (FreeFile(w.file) != 0 && w.error == 0)
			w.error = errno != 0 ? errno : ENOSPC;
	}
	if (w.error != 0)
	{
		errno = w.error;
		ereport(LOG, (errcode_for_file_access(),
					  errmsg("could not write file \"%s\": %m", MTP_LIST_TEMPORARY)));
	}
	MTP_INJECT("hot_list_written");

	/* This makes the file durable before it renames it, and logs what fails (invariant W2). */
	if (w.error != 0 || durable_rename(MTP_LIST_TEMPORARY, MTP_LIST_FILE, LOG) != 0)
		(void) unlink(MTP_LIST_TEMPORARY);
}

/* ---------- reading ---------- */

/* Reads the next bytes.  Returns false if there are none or they cannot be read. */
static bool
get_bytes(FILE *file, void *data, Size size, pg_crc32c *crc)
{
	if (fread(data, size, 1, file) != 1)
		return false;
	COMP_CRC32C(*crc, data, size);
	return true;
}

/* Returns what is wrong behind the header, or NULL. */
static const char *
read_pages(FILE *file, const MtpListHeader *header,
		   void (*page) (const MtpListPage *page, void *arg), void *arg, MtpLearnt *learnt)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	for (uint64 i = 0; i < header->npages; i++)
	{
		MtpListPage p;

		CHECK_FOR_INTERRUPTS();
		if (!get_bytes(file, &p, sizeof(p), &crc) || p.kind >= MTP_POLICY_KINDS ||
			p.degree > MTP_HEAT_MOST || p.file == 0 || p.block == InvalidBlockNumber)
			return "it is damaged";
		page(&p, arg);
	}
	for (uint32 i = 0; i < header->nlearnt; i++)
	{
		MtpLearnt	l;

		if (!get_bytes(file, &l, sizeof(l), &crc))
			return "it is damaged";
		if (learnt != NULL)
			learnt[i] = l;
	}
	FIN_CRC32C(crc);
	return crc == header->rest_crc ? NULL : "it is damaged";
}

bool
mtp_list_read(void (*page) (const MtpListPage *page, void *arg), void *arg, MtpLearnt *learnt,
			  int *nlearnt, const char **why)
{
	MtpListHeader header;
	struct stat st;
	FILE	   *file = AllocateFile(MTP_LIST_FILE, PG_BINARY_R);

	if (file == NULL)
	{
		*why = errno == ENOENT ? NULL : "it can't be opened";
		return false;
	}

	/* The file must be ours, and have all that its header claims (invariant W3). */
	if (fstat(fileno(file), &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < sizeof(header) ||
		fread(&header, sizeof(header), 1, file) != 1 || header.magic != MTP_LIST_MAGIC)
		*why = "it is no hot list";
	else if (header.version != MTP_LIST_VERSION)
		*why = "it is of another version of mtpower";
	else if (header.crc != header_crc(&header))
		*why = "it is damaged";
	else if (header.block != BLCKSZ)
		*why = "it is of a server with another block size";
	else if (header.system != GetSystemIdentifier())
		*why = "it is of another cluster";
	else if (header.nlearnt > MTP_LEARN_TABLES ||
			 header.npages > st.st_size / sizeof(MtpListPage) ||
			 st.st_size != sizeof(header) + header.npages * sizeof(MtpListPage) +
			 header.nlearnt * sizeof(MtpLearnt))
		*why = "it is damaged";
	else
		*why = read_pages(file, &header, page, arg, learnt);
	if (*why == NULL && nlearnt != NULL)
		*nlearnt = header.nlearnt;
	FreeFile(file);
	return *why == NULL;
}
