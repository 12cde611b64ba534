/*
 * media.c
 *	  Maps files, writes to them, and makes the writes durable, by libpmem.
 */
#include "pmem/media.h"

#ifdef MTP_WITH_PMEM

#include <libpmem.h>

bool
mtp_media_built(void)
{
	return true;
}

bool
mtp_media_map(MtpMedia *m, const char *path, Size size, const char **why)
{
	int			is_pmem;

	memset(m, 0, sizeof(*m));
	m->base = pmem_map_file(path, size, PMEM_FILE_CREATE, 0600, &m->size, &is_pmem);
	if (m->base == NULL)
	{
		*why = pmem_errormsg();
		return false;
	}
	m->is_pmem = is_pmem;
	return true;
}

void
mtp_media_unmap(MtpMedia *m)
{
	(void) pmem_unmap(m->base, m->size);
	m->base = NULL;
}

void
mtp_media_write(void *to, const void *from, Size size)
{
	(void) pmem_memcpy(to, from, size, PMEM_F_MEM_NONTEMPORAL | PMEM_F_MEM_NODRAIN);
}

void
mtp_media_clear(void *at, Size size)
{
	(void) pmem_memset(at, 0, size, PMEM_F_MEM_NONTEMPORAL | PMEM_F_MEM_NODRAIN);
}

void
mtp_media_drain(void)
{
	pmem_drain();
}

#else

bool
mtp_media_built(void)
{
	return false;
}

bool
mtp_media_map(MtpMedia *m, const char *path, Size size, const char **why)
{
	*why = "mtpower was built without libpmem";
	return false;
}

void
mtp_media_unmap(MtpMedia *m)
{
}

void
mtp_media_write(void *to, const void *from, Size size)
{
}

void
mtp_media_clear(void *at, Size size)
{
}

void
mtp_media_drain(void)
{
}

#endif							/* MTP_WITH_PMEM */
