/*
 * slow_pmem.c
 *	  To be preloaded by a server (LD_PRELOAD): a libpmem that takes its time, or kills who calls it, where headers of frames and the marker are written.
 *
 * As long as the file that MTP_SLOW_PMEM names exists.  It has: microseconds for each header; which header is a process's last, or 0; is the
 * marker, or 0.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#define HEADER	64
#define MARKER	88

void	   *pmem_memcpy(void *to, const void *from, size_t n, unsigned flags);

void *
pmem_memcpy(void *to, const void *from, size_t n, unsigned flags)
{
	static void *(*real) (void *, const void *, size_t, unsigned);
	static int	headers;
	const char *name = getenv("MTP_SLOW_PMEM");
	FILE	   *file = name != NULL && (n == HEADER || n == MARKER) ? fopen(name, "r") : NULL;
	int			wait = 0,
				last = 0,
				marker = 0;

	if (real == NULL)
		real = (void *(*) (void *, const void *, size_t, unsigned)) dlsym(RTLD_NEXT, "pmem_memcpy");
	if (file != NULL)
	{
		if (fscanf(file, "%d %d %d", &wait, &last, &marker) != 3)
			abort();
		fclose(file);
		if (n == HEADER)
		{
			usleep(wait);
			if (last != 0 && ++headers == last)
				kill(getpid(), SIGKILL);
		}
		else if (marker)
			kill(getpid(), SIGKILL);
	}
	return real(to, from, n, flags);
}
