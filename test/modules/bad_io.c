/*
 * bad_io.c
 *	  To be preloaded by a server (LD_PRELOAD): lets writes fail that make a file longer.
 *
 * As long as the file that MTP_BAD_IO names exists: it has an error number, or 0 for a write of the first 512 bytes, and a part of the names of
 * the files that are meant.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

ssize_t		pwrite(int fd, const void *buf, size_t n, off_t at);
ssize_t		pwrite64(int fd, const void *buf, size_t n, off64_t at);

/* -1: the write may go on */
static int
what_fails(int fd, off_t at)
{
	const char *control = getenv("MTP_BAD_IO");
	FILE	   *file = control ? fopen(control, "r") : NULL;
	char		part[256],
				link[64],
				name[1024];
	int			error;
	struct stat st;
	ssize_t		len;

	if (file == NULL)
		return -1;
	if (fscanf(file, "%d %255s", &error, part) != 2)
		error = -1;
	fclose(file);
	if (error < 0 || fstat(fd, &st) != 0 || at < st.st_size)
		return -1;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, name, sizeof(name) - 1);
	if (len < 0)
		return -1;
	name[len] = '\0';
	return strstr(name, part) != NULL ? error : -1;
}

ssize_t
pwrite64(int fd, const void *buf, size_t n, off64_t at)
{
	static ssize_t (*real) (int, const void *, size_t, off64_t);
	int			before = errno;
	int			error = what_fails(fd, at);

	errno = before;
	if (real == NULL)
		real = (ssize_t (*) (int, const void *, size_t, off64_t)) dlsym(RTLD_NEXT, "pwrite64");
	if (error < 0)
		return real(fd, buf, n, at);
	/* Who goes on behind the half finds no room. */
	if (error == 0 && at % 8192 == 0)
		return real(fd, buf, 512, at);
	if (error == 0)
		error = ENOSPC;
	errno = error;
	return -1;
}

ssize_t
pwrite(int fd, const void *buf, size_t n, off_t at)
{
	return pwrite64(fd, buf, n, at);
}
