/*
 * seal.c
 *	  What the pool file gets at a server's end and gives at its start, and in which order.
 *
 * README.md argues each step.  Each write goes past the caches, and is durable once it is drained.
 */
#include "pmem/file.h"

#include "port/pg_crc32c.h"
#include "storage/bufpage.h"

Size
mtp_pmem_shared(uint32 nslabs)
{
	return mul_size(nslabs, MTP_SLAB_FRAMES * sizeof(uint64));
}

static Size
images_at(uint32 nslabs)
{
	return TYPEALIGN(MTP_SLAB_BYTES, MTP_PMEM_HEADERS_AT +
					 (Size) nslabs * MTP_SLAB_FRAMES * sizeof(MtpPmemHeader));
}

Size
mtp_pmem_bytes(uint32 nslabs, Size slack)
{
	return images_at(nslabs) + (Size) nslabs * MTP_SLAB_BYTES + TYPEALIGN(4096, slack);
}

void
mtp_pmem_lay_out(MtpPmem *file, uint32 nslabs)
{
	file->nslabs = nslabs;
	file->headers = (MtpPmemHeader *) (file->media.base + MTP_PMEM_HEADERS_AT);
	file->images = file->media.base + images_at(nslabs);
}

/* Invariant M1: on x86-64 nothing but a drain orders these stores with those of the version. */
void
mtp_pmem_copy(void *to, const void *from, Size size)
{
	mtp_media_drain();			/* the odd version before the image */
	mtp_media_write(to, from, size);
	mtp_media_drain();			/* the image before the even version */
}

/* ---------- checksums ---------- */

static pg_crc32c
marker_crc(const MtpPmemMarker *marker)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, marker, offsetof(MtpPmemMarker, crc));
	FIN_CRC32C(crc);
	return crc;
}

static pg_crc32c
frame_crc(const MtpPmemHeader *h, const char *image)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, &h->serial, sizeof(*h) - offsetof(MtpPmemHeader, serial));
	COMP_CRC32C(crc, image, mtp_policy_frame_bytes(h->kind));
	FIN_CRC32C(crc);
	return crc;
}

/* ---------- which frames ---------- */

/* True for kinds that the file keeps.  Page directories are made anew. */
static bool
is_kept(int kind)
{
	return kind == MTP_FRAME_INDEX || kind == MTP_FRAME_TABLE;
}

/*
 * The numbers of the frames to which degree_of gives a degree of heat (not negative), the warmest
 * first; *n of them.  NULL if there is no memory: this runs at the postmaster's end, where nothing
 * may raise an error.
 */
static uint32 *
warmest_first(MtpPmem *file, MtpBuffer *b,
			  int (*degree_of) (MtpPmem *file, MtpBuffer *b, uint32 frame), uint32 *n)
{
	uint32		nframes = file->nslabs * MTP_SLAB_FRAMES;
	uint32		at[MTP_HEAT_MOST + 1] = {0};
	uint32	   *order;

	*n = 0;
	for (uint32 frame = 0; frame < nframes; frame++)
	{
		int			degree = degree_of(file, b, frame);

		/* Frames of a degree begin behind those of all warmer ones. */
		if (degree > 0)
			at[degree - 1]++;
		*n += degree >= 0;
	}
	for (int degree = MTP_HEAT_MOST - 1; degree >= 0; degree--)
		at[degree] += at[degree + 1];
	order = malloc(Max(*n, 1) * sizeof(uint32));
	for (uint32 frame = 0; frame < nframes && order != NULL; frame++)
	{
		int			degree = degree_of(file, b, frame);

		if (degree >= 0)
			order[at[degree]++] = frame;
	}
	return order;
}

/* ---------- the end ---------- */

/* Reads one version of the frame, as any reader does, and makes it durable (invariant M2). */
bool
mtp_seal_frame(MtpPmem *file, MtpBuffer *b, uint32 frame, char *copy)
{
	MtpFrameHeader *header = &b->headers[frame];
	MtpPmemHeader h = {0};

	h.serial = pg_atomic_read_u64(&header->version);
	pg_read_barrier();			/* the version before what it protects */
	h.tag = header->tag;
	h.kind = b->policy->kind_of[frame / MTP_SLAB_FRAMES];
	if (h.serial % 2 != 0 || h.tag.page == 0 || !is_kept(h.kind) ||
		frame % MTP_SLAB_FRAMES >= mtp_policy_frames(h.kind))
		return false;
	memcpy(copy, mtp_frame_image(b, frame, h.kind), mtp_policy_frame_bytes(h.kind));
	h.magic = MTP_PMEM_FRAME;
	h.lsn = PageGetLSN((Page) copy);
	h.frame = frame;
	h.degree = mtp_heat_degree(b->policy->heat[frame], mtp_policy_epoch(b->policy));
	pg_read_barrier();			/* all of it before the version */
	if (pg_atomic_read_u64(&header->version) != h.serial)
		return false;

	/* No lock is held: if the frame changes from here on, the header is of an older version. */
	h.crc = frame_crc(&h, copy);
	mtp_media_write(&file->headers[frame], &h, sizeof(h));
	mtp_media_drain();			/* before any process relies on it */
	file->sealed[frame] = h.serial;
	mtp_frame_count(b, h.kind, MTP_COUNT_SEALED);
	return true;
}

static bool
is_sealed(MtpPmem *file, MtpBuffer *b, uint32 frame)
{
	return file->sealed[frame] != 0 &&
		file->sealed[frame] == pg_atomic_read_u64(&b->headers[frame].version) &&
		b->headers[frame].tag.page != 0;
}

static int
degree_of_unsealed(MtpPmem *file, MtpBuffer *b, uint32 frame)
{
	int			kind = b->policy->kind_of[frame / MTP_SLAB_FRAMES];

	if (b->headers[frame].tag.page == 0 || !is_kept(kind) || is_sealed(file, b, frame))
		return -1;
	return mtp_heat_degree(b->policy->heat[frame], mtp_policy_epoch(b->policy));
}

/* Steps 1 to 3 of the server's end (README.md, "The end"; invariant M3). */
void
mtp_seal_rest(MtpPmem *file, MtpBuffer *b, bool (*go_on) (void), MtpSealed *sealed)
{
	uint32		n;
	uint32	   *order = warmest_first(file, b, degree_of_unsealed, &n);
	char	   *copy = malloc(2 * BLCKSZ);

	memset(sealed, 0, sizeof(*sealed));

	/* Step 1: the warmest first, as time may run out. */
	for (uint32 i = 0; i < n && order != NULL && copy != NULL && go_on(); i++)
		(void) mtp_seal_frame(file, b, order[i], copy);
	free(order);
	free(copy);

	/* Step 2: a header of an earlier version leads to what the frame was then, so it goes. */
	for (uint32 frame = 0; frame < file->nslabs * MTP_SLAB_FRAMES; frame++)
	{
		sealed->left += degree_of_unsealed(file, b, frame) >= 0;
		if (is_sealed(file, b, frame))
			sealed->sealed++;
		else if (file->headers[frame].magic != 0)
			mtp_media_clear(&file->headers[frame], sizeof(MtpPmemHeader));
	}
	mtp_media_drain();			/* step 3: before there is a marker */
}

/* Step 4.  All headers are durable.  A crash here leaves a marker that its checksum refuses. */
void
mtp_seal_mark(MtpPmem *file, const MtpPmemState *state, uint32 sealed)
{
	MtpPmemMarker marker = {.magic = MTP_PMEM_MARKED,.state = *state,.layout =
	MTP_PMEM_LAYOUT,.sealed = sealed};

	marker.crc = marker_crc(&marker);
	mtp_media_write(file->media.base + MTP_PMEM_MARKER_AT, &marker, sizeof(marker));
	mtp_media_drain();
}

/* ---------- the beginning ---------- */

/* Takes the marker away, durably, before anything else changes. */
static void
clear_marker(MtpPmem *file)
{
	mtp_media_clear(file->media.base + MTP_PMEM_MARKER_AT, sizeof(MtpPmemMarker));
	mtp_media_drain();
}

void
mtp_pmem_format(MtpPmem *file)
{
	MtpPmemFileHeader header = {.magic = MTP_PMEM_MAGIC,.layout = MTP_PMEM_LAYOUT,.nslabs =
	file->nslabs};

	/* The marker first: else the new contents may pass for those that it was written for. */
	clear_marker(file);
	mtp_media_write(file->media.base, &header, sizeof(header));
	mtp_media_drain();
}

MtpMark
mtp_pmem_unmark(MtpPmem *file, MtpPmemMarker *marker)
{
	MtpPmemMarker none = {0};

	memcpy(marker, file->media.base + MTP_PMEM_MARKER_AT, sizeof(*marker));
	/* Even if there seems to be none: the emptiness may not be durable yet. */
	clear_marker(file);
	if (memcmp(marker, &none, sizeof(none)) == 0)
		return MTP_MARK_NONE;
	if (marker->magic != MTP_PMEM_MARKED || marker->crc != marker_crc(marker) ||
		marker->layout != MTP_PMEM_LAYOUT || marker->state.nslabs != file->nslabs)
		return MTP_MARK_WRONG;
	return MTP_MARK_FOUND;
}

/*
 * True if this can be the frame's header.  Its checksum decides whether it is, and whether the
 * image is intact.
 */
static bool
is_header(const MtpPmemHeader *h, uint32 frame)
{
	return h->magic == MTP_PMEM_FRAME && h->frame == frame && is_kept(h->kind) &&
		frame % MTP_SLAB_FRAMES < mtp_policy_frames(h->kind) &&
		h->degree <= MTP_HEAT_MOST && h->serial != 0 && h->serial % 2 == 0 &&
		(uint32) h->tag.page != 0;
}

/* The kind that a slab had: that of the first header that can be one */
static int
kind_of_slab(MtpPmem *file, uint32 slab)
{
	for (uint32 frame = slab * MTP_SLAB_FRAMES; frame < (slab + 1) * MTP_SLAB_FRAMES;
		 frame++)
		if (is_header(&file->headers[frame], frame))
			return file->headers[frame].kind;
	return MTP_FRAME_NONE;
}

static int
degree_of_header(MtpPmem *file, MtpBuffer *b, uint32 frame)
{
	MtpPmemHeader *h = &file->headers[frame];

	return is_header(h, frame) && h->kind == b->policy->kind_of[frame / MTP_SLAB_FRAMES] ? h->degree
		: -1;
}

/* Takes a frame over.  False if it is not what was sealed, or its page has a frame. */
static bool
take_over_frame(MtpPmem *file, MtpBuffer *b, uint32 frame)
{
	MtpPmemHeader h = file->headers[frame];
	char	   *image = mtp_frame_image(b, frame, h.kind);

	if (h.crc != frame_crc(&h, image) || h.lsn != PageGetLSN((Page) image) ||
		!mtp_frame_adopt(b, frame, h.tag, h.serial, h.degree))
		return false;
	file->sealed[frame] = h.serial;
	mtp_frame_count(b, h.kind, MTP_COUNT_TAKEN_OVER);
	return true;
}

void
mtp_pmem_take_over(MtpPmem *file, MtpBuffer *b, bool (*go_on) (void), MtpTaken *taken)
{
	uint32		first = 0;
	uint32		n;
	uint32	   *order;

	/*
	 * Slabs without a kind come first (mtp_policy_wants).  One behind these that has no frames
	 * left gets a kind all the same.
	 */
	while (first < file->nslabs && kind_of_slab(file, first) == MTP_FRAME_NONE)
		first++;
	for (uint32 slab = file->nslabs; slab-- > first;)
	{
		int			kind = kind_of_slab(file, slab);

		mtp_policy_change(b->policy, slab, kind == MTP_FRAME_NONE ? MTP_FRAME_INDEX : kind);
	}

	/*
	 * The marker vouches for the headers (invariant M3); the checksums find images that were
	 * damaged, or not durable.
	 */
	order = warmest_first(file, b, degree_of_header, &n);
	memset(taken, 0, sizeof(*taken));
	for (uint32 i = 0; i < n; i++)
	{
		if (order == NULL || !go_on())
		{
			taken->left = n - i;
			break;
		}
		if (take_over_frame(file, b, order[i]))
			taken->taken++;
		else
			taken->wrong++;
	}
	free(order);

	/* The unused frames of a kind's newest slab begin behind the last one that has a page. */
	for (int kind = 0; kind < MTP_POLICY_KINDS; kind++)
	{
		MtpPolicyKind *k = &b->policy->kinds[kind];
		MtpFrameHeader *headers;

		if (k->nslabs == 0)
			continue;
		headers = &b->headers[b->policy->slabs[kind][k->nslabs - 1] * MTP_SLAB_FRAMES];
		k->fresh = mtp_policy_frames(kind);
		while (k->fresh > 0 && headers[k->fresh - 1].tag.page == 0)
			k->fresh--;
	}
}
