/*
 * media.c
 *	  Maps files, writes to them, and makes the writes durable, by libpmem.
 */
#include "pmem/media.h"

#ifdef MTP_WITH_PMEM
#include <libpmem.h>
#endif

bool
mtp_media_built(void)
{
#ifdef MTP_WITH_PMEM
	return true;
#else
	return false;
#endif
}

bool
mtp_media_map(MtpMedia *m, const char *path, Size size, const char **why)
{
#ifdef MTP_WITH_PMEM
	int			is_pmem;

	memset(m, 0, sizeof(*m));
	m->base = pmem_map_file(path, size, PMEM_FILE_CREATE, 0600, &m->size, &is_pmem);
	if (m->base != NULL)
	{
		m->is_pmem = is_pmem;
		return true;
	}
	*why = pmem_errormsg();
#else
	*why = "mtpower was built without libpmem";
#endif
	return false;
}

void
mtp_media_unmap(MtpMedia *m)
{
#ifdef MTP_WITH_PMEM
	(void) pmem_unmap(m->base, m->size);
	m->base = NULL;
#endif
}

void
mtp_media_write(void *to, const void *from, Size size)
{
#ifdef MTP_WITH_PMEM
	(void) pmem_memcpy(to, from, size, PMEM_F_MEM_NONTEMPORAL | PMEM_F_MEM_NODRAIN);
#endif
}

void
mtp_media_clear(void *at, Size size)
{
#ifdef MTP_WITH_PMEM
	(void) pmem_memset(at, 0, size, PMEM_F_MEM_NONTEMPORAL | PMEM_F_MEM_NODRAIN);
#endif
}

void
mtp_media_drain(void)
{
#ifdef MTP_WITH_PMEM
	pmem_drain();
#endif
}
