// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * scrape PORT TIMES: between two marks for the plugin (mark.h), gets the metrics of `serve` from
 * this port of 127.0.0.1 so many times, 1.1 s apart: a second later they are read anew. With port 0
 * it only waits. It prints the bytes of the last answer.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mark.h"

static const char REQUEST[] = "GET /metrics HTTP/1.0\r\n\r\n";

/* Returns the bytes of the answer; 0: there is none. */
static size_t get(int port)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int conn = socket(AF_INET, SOCK_STREAM, 0);
	static char answer[1 << 16];
	size_t bytes = 0;
	ssize_t n = -1;

	if (conn >= 0 && !connect(conn, (struct sockaddr *)&to, sizeof(to)) &&
	    write(conn, REQUEST, sizeof(REQUEST) - 1) == sizeof(REQUEST) - 1)
		while ((n = read(conn, answer, sizeof(answer))) > 0)
			bytes += n;
	close(conn);
	return n ? 0 : bytes;
}

int main(int argc, char **argv)
{
	int port, times;
	size_t bytes = 0;

	if (argc != 3)
		return 2;
	port = atoi(argv[1]);
	times = atoi(argv[2]);
	mark(MARK_BEGIN);
	for (int i = 0; i < times; i++) {
		if (port) {
			bytes = get(port);
			if (!bytes)
				return 1;
		}
		usleep(1100000);
	}
	mark(MARK_END);
	printf("%zu\n", bytes);
	return 0;
}
