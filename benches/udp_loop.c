// udp_loop: a bare loop of sends to UDP clients, which is what a relay to them cannot do without.
//
//   gcc -O2 -o udp_loop udp_loop.c
//   ./udp_loop CLIENTS BITS_PER_SECOND SECONDS SEGMENTED FIRST_PORT
//
// Every 10 ms the RTP datagrams (1,328 bytes, 1,316 of them MPEG-TS) that are due at this rate go to each client, which are at
// 127.0.0.1 from FIRST_PORT on: those of one client with one call where SEGMENTED is 1 (UDP_SEGMENT), one by one where it is 0.
// One JSON line is printed: datagrams that the kernel took, calls, and the seconds of CPU.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#define DATAGRAM 1328
#define PAYLOAD 1316
#define TOGETHER_MAX 45
#define GROUP_NS 10000000

static char group[TOGETHER_MAX * DATAGRAM];

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

int main(int count, char **arguments)
{
    if (count != 6)
        return 2;
    int clients = atoi(arguments[1]), segmented = atoi(arguments[4]), first = atoi(arguments[5]);
    double rate = atof(arguments[2]), seconds = atof(arguments[3]);
    int out = socket(AF_INET, SOCK_DGRAM, 0);
    int size = DATAGRAM, room = 4 << 20;
    setsockopt(out, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    if (segmented && setsockopt(out, SOL_UDP, UDP_SEGMENT, &size, sizeof size) != 0) {
        perror("UDP_SEGMENT");
        return 1;
    }
    struct sockaddr_in *to = calloc(clients, sizeof *to);
    for (int client = 0; client < clients; client++) {
        to[client].sin_family = AF_INET;
        to[client].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        to[client].sin_port = htons(first + client);
    }
    long sent = 0, calls = 0, due = 0;
    double before = cpu_seconds();
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    for (long turn = 1; turn * (GROUP_NS / 1e9) <= seconds; turn++) {
        at.tv_nsec += GROUP_NS;
        if (at.tv_nsec >= 1000000000)
            at.tv_nsec -= 1000000000, at.tv_sec++;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
        long all = (long)(turn * (GROUP_NS / 1e9) * rate / 8 / PAYLOAD), now = all - due;
        due = all;
        while (now > 0) {
            long together = now < TOGETHER_MAX ? now : TOGETHER_MAX;
            now -= together;
            for (int client = 0; client < clients; client++) {
                long step = segmented ? together : 1;
                for (long datagram = 0; datagram < together; datagram += step, calls++)
                    if (sendto(out, group + datagram * DATAGRAM, step * DATAGRAM, 0, (struct sockaddr *)&to[client], sizeof *to) > 0)
                        sent += step;
            }
        }
    }
    printf("{\"sent\": %ld, \"calls\": %ld, \"cpu\": %.6f}\n", sent, calls, cpu_seconds() - before);
    return 0;
}
