/*
 * view.c
 *	  The views stat_buffer and buffer_content: what the buffer did, and what is in it.
 */
#include "buffer/buffer.h"

#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(mtp_stat_buffer);
PG_FUNCTION_INFO_V1(mtp_buffer_content);

static const char *const kind_names[MTP_FRAME_KINDS] = {"index", "table", "directory"};

/* One row for each kind, and one for slabs that have no kind yet */
Datum
mtp_stat_buffer(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	MtpPolicy  *policy = mtp_buffer.policy;
	uint32		aged;			/* epochs that have begun since the last reset */

	mtp_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	if (policy == NULL)
		return (Datum) 0;
	mtp_buffer_tell();
	aged = pg_atomic_read_u32(&policy->epoch) -
		(uint32) pg_atomic_read_u64(&mtp_buffer_counts[MTP_BUFFER_COUNTS]);
	for (int kind = 0; kind <= MTP_FRAME_KINDS; kind++)
	{
		bool		is_free = kind == MTP_FRAME_KINDS;
		uint64		bytes = is_free ? (uint64) policy->nfree * MTP_SLAB_BYTES : 0;
		pg_atomic_uint64 *counts = mtp_buffer_counts + kind * MTP_FRAME_COUNTS;
		uint64		frames = 0;
		Datum		values[4 + MTP_FRAME_COUNTS] = {0};
		bool		nulls[4 + MTP_FRAME_COUNTS];

		for (int i = 0; i < MTP_POLICY_KINDS; i++)
			if (mtp_policy_page_kind(i) == kind)
			{
				frames += (uint64) policy->kinds[i].nslabs * mtp_policy_frames(i);
				bytes += (uint64) policy->kinds[i].nslabs * MTP_SLAB_BYTES;
			}
		memset(nulls, is_free, sizeof(nulls));
		nulls[0] = nulls[2] = false;
		values[0] = CStringGetTextDatum(is_free ? "free" : kind_names[kind]);
		values[1] = Int64GetDatum(frames);
		values[2] = Int64GetDatum(bytes);
		for (int i = 0; i < MTP_FRAME_COUNTS && !is_free; i++)
			values[3 + i] = Int64GetDatum(pg_atomic_read_u64(&counts[i]));
		values[3 + MTP_FRAME_COUNTS] = Int64GetDatum(aged);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

Datum
mtp_buffer_content(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	MtpPolicy  *policy = mtp_buffer.policy;
	uint32		nframes = policy == NULL ? 0 : policy->nslabs * MTP_SLAB_FRAMES;

	mtp_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	for (uint32 frame = 0; frame < nframes; frame++)
	{
		int			kind;
		MtpPageTag	tag;
		MtpLocator	file;
		Oid			space;
		Oid			relid;
		Datum		values[4];
		bool		nulls[4] = {false};

		CHECK_FOR_INTERRUPTS();
		if (!mtp_frame_page(&mtp_buffer, frame, &tag, &kind))
			continue;
		file = mtp_tag_file(tag);
		if (MtpLocatorDatabase(file) != MyDatabaseId)
			continue;
		space = MtpLocatorSpace(file) == MyDatabaseTableSpace ? InvalidOid : MtpLocatorSpace(file);
		relid = RelidByRelfilenumber(space, MtpLocatorFile(file));
		values[0] = ObjectIdGetDatum(relid);
		nulls[0] = !OidIsValid(relid);	/* of a transaction that has not ended, or not known yet */
		values[1] = Int64GetDatum((int64) (uint32) tag.page - 1);
		values[2] = CStringGetTextDatum(kind_names[mtp_policy_page_kind(kind)]);
		values[3] = Float4GetDatum(mtp_heat_accesses[mtp_heat_degree(policy->heat[frame],
																	 mtp_policy_epoch(policy))]);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
