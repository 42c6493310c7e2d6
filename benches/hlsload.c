// hlsload: many HLS viewers of one stream, one process; measures what a server of playlists and segments delivers and what it costs.
//
//   gcc -O2 -o hlsload hlsload.c
//   ./hlsload --port 8000 --list /stream/demo/index.m3u8 --viewers 500 --warmup 4 --seconds 10 --pid $(pidof SERVER)
//
// Each viewer has one connection. It asks for the list, begins with the third segment from its end, takes one after the other, and
// asks for the list again a target duration after the last that was longer, half of it after one that was not, as players do. They
// begin at random within the warm-up. Server cost is read from /proc/PID (all threads). One JSON line is printed.
//
//   --block         ask for the next list ahead of time (_HLS_msn) instead of every now and then
//   --pid PID       whose cost is read (repeatable: of all of them together, but for the memory, which is the first's)
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NAMES 1024
#define HEAD 16384
enum phase { WAITS, LIST, SEGMENT, GONE };
struct viewer { int fd; enum phase phase; uint64_t due, asked, next, newest; size_t have, left; int head_done; char *buf; };

static const char *host = "127.0.0.1", *list_path = "/stream/demo/index.m3u8";
static int port = 8000, viewers = 100, block, pids[64], npids;
static double warmup = 4, seconds = 10;
static struct viewer *v;
static char names[NAMES][96];
static uint64_t numbers[NAMES];
static double target = 2;
static int ep, measuring;
static uint64_t bytes, segments, lists, skipped, refused, lost;
static uint32_t *lat[2]; static size_t nlat[2], cap = 1 << 21;

static uint64_t now_ns(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000ull + t.tv_nsec; }
static void die(const char *what) { perror(what); exit(2); }
static int cmp32(const void *a, const void *b) { uint32_t x = *(uint32_t *)a, y = *(uint32_t *)b; return x < y ? -1 : x > y; }
static double ticks(int p) {
  char f[64], b[1024]; snprintf(f, sizeof f, "/proc/%d/stat", p); FILE *h = fopen(f, "r"); if (!h) return 0;
  size_t n = fread(b, 1, sizeof b - 1, h); b[n] = 0; fclose(h); char *c = strrchr(b, ')'); unsigned long u = 0, s = 0;
  sscanf(c + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &u, &s); return (double)(u + s) / sysconf(_SC_CLK_TCK);
}
static double cpu(void) { double sum = 0; for (int i = 0; i < npids; i++) sum += ticks(pids[i]); return sum; }
static long memory(const char *key) {
  char f[64], l[256]; snprintf(f, sizeof f, "/proc/%d/status", pids[0]); FILE *h = fopen(f, "r"); long kib = -1; if (!h) return -1;
  while (fgets(l, sizeof l, h)) if (!strncmp(l, key, strlen(key))) kib = atol(l + strlen(key) + 1);
  fclose(h); return kib;
}

static void end(struct viewer *w) { epoll_ctl(ep, EPOLL_CTL_DEL, w->fd, 0); close(w->fd); w->phase = GONE; lost++; }
static void ask(struct viewer *w, enum phase what, const char *path) {
  char request[512];
  int n = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: %s:%d\r\n\r\n", path, host, port);
  w->phase = what; w->asked = now_ns(); w->have = w->left = 0; w->head_done = 0;
  if (send(w->fd, request, n, MSG_NOSIGNAL) != n) end(w);
}
static void ask_list(struct viewer *w) {
  char path[256]; snprintf(path, sizeof path, "%s", list_path);
  if (block && w->next) snprintf(path, sizeof path, "%s?_HLS_msn=%lu", list_path, (unsigned long)w->next);
  ask(w, LIST, path);
}
static void ask_next(struct viewer *w) { // the segment that comes next, if the list had it; else the list, when it is time
  while (w->next <= w->newest && numbers[w->next % NAMES] != w->next) { w->next++; skipped++; }
  if (w->next > w->newest) {
    if (block) { ask_list(w); return; }
    w->phase = WAITS; w->due = w->asked + (uint64_t)(target * 1e9); if (w->due < now_ns()) w->due = now_ns();
    return;
  }
  char path[256]; const char *slash = strrchr(list_path, '/');
  snprintf(path, sizeof path, "%.*s%s", (int)(slash + 1 - list_path), list_path, names[w->next % NAMES]);
  ask(w, SEGMENT, path);
}
static void take_list(struct viewer *w, char *text) {
  uint64_t number = 0, newest = 0; char *save;
  for (char *l = strtok_r(text, "\r\n", &save); l; l = strtok_r(0, "\r\n", &save)) {
    if (!strncmp(l, "#EXT-X-TARGETDURATION:", 22)) target = atof(l + 22);
    else if (!strncmp(l, "#EXT-X-MEDIA-SEQUENCE:", 22)) number = strtoull(l + 22, 0, 10);
    else if (*l != '#') {
      if (numbers[number % NAMES] != number) { snprintf(names[number % NAMES], sizeof names[0], "%s", l); numbers[number % NAMES] = number; }
      newest = number++;
    }
  }
  lists += measuring;
  int is_longer = newest > w->newest; w->newest = newest;
  if (!w->next) w->next = newest >= 2 ? newest - 2 : newest;
  if (is_longer) { uint64_t asked = w->asked; ask_next(w); if (w->phase == WAITS) w->due = asked + (uint64_t)(target * 1e9); return; }
  if (block) { ask_list(w); return; }
  w->phase = WAITS; w->due = w->asked + (uint64_t)(target * 5e8);
}
static void whole(struct viewer *w) { // the answer is
  enum phase was = w->phase; uint32_t us = (now_ns() - w->asked) / 1000;
  if (measuring && nlat[was == SEGMENT] < cap && !(was == LIST && block)) lat[was == SEGMENT][nlat[was == SEGMENT]++] = us;
  if (was == SEGMENT) { segments += measuring; w->next++; ask_next(w); } else { w->buf[w->have] = 0; take_list(w, w->buf); }
}
static void take(struct viewer *w) {
  static char trash[1 << 20];
  for (;;) {
    int keeps = !w->head_done || w->phase == LIST;
    ssize_t r = keeps ? recv(w->fd, w->buf + w->have, HEAD - 1 - w->have, MSG_DONTWAIT) : recv(w->fd, trash, sizeof trash < w->left ? sizeof trash : w->left, MSG_TRUNC | MSG_DONTWAIT);
    if (r < 0 && errno == EAGAIN) return;
    if (r <= 0 || w->phase == WAITS) { end(w); return; }
    if (measuring) bytes += r;
    if (w->head_done) { w->left -= r; if (w->phase == LIST) w->have += r; }
    else {
      w->have += r; w->buf[w->have] = 0;
      char *body = strstr(w->buf, "\r\n\r\n"), *length = strcasestr(w->buf, "\r\ncontent-length:");
      if (!body) continue;
      int status = atoi(w->buf + 9); body += 4; size_t head = body - w->buf;
      if (!length || length > body) { end(w); return; }
      w->left = strtoull(length + 17, 0, 10) - (w->have - head); w->head_done = 1;
      memmove(w->buf, body, w->have - head); w->have -= head;
      if (status != 200) { refused += measuring; if (w->left) { end(w); return; } w->newest = 0; w->phase = WAITS; w->due = now_ns() + 500000000; return; }
    }
    if (!w->left) { whole(w); if (w->phase == GONE || w->phase == WAITS) return; }
  }
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    const char *a = argv[i];
#define ARG(name) (!strcmp(a, name) && i + 1 < argc)
    if (ARG("--host")) host = argv[++i]; else if (ARG("--port")) port = atoi(argv[++i]); else if (ARG("--list")) list_path = argv[++i];
    else if (ARG("--viewers")) viewers = atoi(argv[++i]); else if (ARG("--seconds")) seconds = atof(argv[++i]); else if (ARG("--warmup")) warmup = atof(argv[++i]);
    else if (ARG("--pid") && npids < 64) pids[npids++] = atoi(argv[++i]); else if (!strcmp(a, "--block")) block = 1;
    else { fprintf(stderr, "hlsload: unknown argument %s (see the head of hlsload.c)\n", a); return 2; }
  }
  struct rlimit rl; getrlimit(RLIMIT_NOFILE, &rl); rl.rlim_cur = rl.rlim_max; setrlimit(RLIMIT_NOFILE, &rl);
  v = calloc(viewers, sizeof *v); ep = epoll_create1(0); lat[0] = malloc(cap * 4); lat[1] = malloc(cap * 4); srand(7);
  long rss_before = memory("VmRSS");
  uint64_t t0 = now_ns();
  for (int i = 0; i < viewers; i++) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)}; inet_pton(AF_INET, host, &a.sin_addr);
    int s = socket(AF_INET, SOCK_STREAM, 0), one = 1; if (s < 0) die("socket");
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); if (connect(s, (void *)&a, sizeof a)) die("connect");
    v[i] = (struct viewer){.fd = s, .phase = WAITS, .due = t0 + (uint64_t)(warmup * 1e9 * (0.7 * rand() / RAND_MAX)), .buf = malloc(HEAD)};
    struct epoll_event ev = {.events = EPOLLIN, .data.u32 = i}; epoll_ctl(ep, EPOLL_CTL_ADD, s, &ev);
  }
  uint64_t begin = t0 + (uint64_t)(warmup * 1e9), stop = begin + (uint64_t)(seconds * 1e9), looked = 0, since = 0;
  double cpu_before = 0, own_before = 0; struct epoll_event evs[256];
  for (;;) {
    uint64_t t = now_ns();
    if (!measuring && t >= begin) { measuring = 1; since = t; cpu_before = cpu(); own_before = ticks(getpid()); lost = 0; }
    if (t >= stop) break;
    if (t - looked > 5000000) { looked = t; for (int i = 0; i < viewers; i++) if (v[i].phase == WAITS && v[i].due <= t) ask_list(&v[i]); }
    int k = epoll_wait(ep, evs, 256, 5);
    for (int e = 0; e < k; e++) if (v[evs[e].data.u32].phase != GONE) take(&v[evs[e].data.u32]);
  }
  double took = (now_ns() - since) / 1e9, spent = cpu() - cpu_before, own = ticks(getpid()) - own_before;
  for (int i = 0; i < 2; i++) qsort(lat[i], nlat[i], 4, cmp32);
#define P(i, p) (nlat[i] ? lat[i][(size_t)((nlat[i] - 1) * p)] / 1000.0 : 0)
  printf("{\"viewers\":%d,\"seconds\":%.2f,\"gbit_s\":%.3f,\"lists_s\":%.1f,\"segments_s\":%.1f,\"due_segments_s\":%.1f,\"cpu_s\":%.2f,\"cpu_s_per_gb\":%.3f,\"load_cpu_s\":%.2f,"
         "\"segment_ms_p50\":%.1f,\"segment_ms_p99\":%.1f,\"list_ms_p50\":%.2f,\"list_ms_p99\":%.2f,\"skipped\":%lu,\"refused\":%lu,\"lost\":%lu,\"rss_before_kib\":%ld,\"rss_kib\":%ld}\n",
         viewers, took, bytes * 8 / took / 1e9, lists / took, segments / took, viewers / target, spent, bytes ? spent / (bytes / 1e9) : 0, own,
         P(1, .5), P(1, .99), P(0, .5), P(0, .99), (unsigned long)skipped, (unsigned long)refused, (unsigned long)lost, rss_before, memory("VmRSS"));
  return 0;
}
