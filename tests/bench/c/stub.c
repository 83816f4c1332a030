/* stub.c - a fast OpenAI-compatible upstream for gateway benchmarks.
 *
 * One thread, epoll, HTTP/1.1 keep-alive.   usage: stub PORT [KEY [UNIX-SOCKET]]
 *
 *   POST /v1/chat/completions   "stream":true  -> SSE, else one small JSON body
 *        "max_tokens": N        number of content chunks, also max_completion_tokens (default 50)
 *        "seed": G              milliseconds between chunks, 0 = flat out (default 0)
 *     Every content chunk carries "t=<CLOCK_MONOTONIC ns at write>", so that a client
 *     on this machine can compute how long that chunk took through a gateway.
 *   ANY  /auth                  200 when Authorization is "Bearer KEY", else 401
 *   GET  /v1/models, anything else -> 200 with a small JSON body (health probes)
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <arpa/inet.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/un.h>
#include <sys/socket.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define INBUF 65536
#define MAXFD 65536

typedef struct {
    int fd, in_len, streaming, left, total, gap_ms, want_out, heap_pos, close_after;
    uint64_t due;
    char *in;
    char out[1024];
    int out_len, out_off;
    int phase; /* 0 head, 1 chunks, 2 tail, 3 done */
} conn;

static conn *conns[MAXFD];
static int ep, tfd;
static const char *auth_key = "";

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* ---- min-heap of paced streams, by due time ---- */
static conn *heap[MAXFD];
static int heap_n;
static void hset(int i, conn *c) { heap[i] = c; c->heap_pos = i; }
static void hup(int i) {
    conn *c = heap[i];
    while (i > 1 && heap[i / 2]->due > c->due) { hset(i, heap[i / 2]); i /= 2; }
    hset(i, c);
}
static void hdown(int i) {
    conn *c = heap[i];
    for (;;) {
        int k = 2 * i;
        if (k > heap_n) break;
        if (k < heap_n && heap[k + 1]->due < heap[k]->due) k++;
        if (heap[k]->due >= c->due) break;
        hset(i, heap[k]);
        i = k;
    }
    hset(i, c);
}
static void hpush(conn *c) { heap[++heap_n] = c; c->heap_pos = heap_n; hup(heap_n); }
static void hdel(conn *c) {
    int i = c->heap_pos;
    if (!i) return;
    conn *last = heap[heap_n--];
    c->heap_pos = 0;
    if (last != c) { hset(i, last); hup(i); hdown(last->heap_pos); }
}

static void drop(conn *c) {
    hdel(c);
    conns[c->fd] = NULL;
    close(c->fd);
    free(c->in);
    free(c);
}
static void set_events(conn *c, int out) {
    if (c->want_out == out) return;
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP | (out ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e);
    c->want_out = out;
}
/* push pending bytes; 1 = all written, 0 = would block, -1 = gone */
static int flush_out(conn *c) {
    while (c->out_off < c->out_len) {
        ssize_t n = write(c->fd, c->out + c->out_off, c->out_len - c->out_off);
        if (n < 0) {
            if (errno == EAGAIN) { set_events(c, 1); return 0; }
            return -1;
        }
        c->out_off += n;
    }
    c->out_off = c->out_len = 0;
    return 1;
}
static void add(conn *c, const char *s, int n) { memcpy(c->out + c->out_len, s, n); c->out_len += n; }
static void add_chunked(conn *c, const char *s, int n) {
    char h[16];
    int k = sprintf(h, "%x\r\n", n);
    add(c, h, k);
    add(c, s, n);
    add(c, "\r\n", 2);
}
static void content_chunk(conn *c) {
    char b[512];
    int first = c->left == c->total;
    int n = sprintf(b,
        "data: {\"id\":\"chatcmpl-stub\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
        "\"model\":\"stub\",\"choices\":[{\"index\":0,\"delta\":{%s\"content\":\"t=%019llu \"},"
        "\"finish_reason\":null}]}\n\n",
        first ? "\"role\":\"assistant\"," : "", (unsigned long long)now_ns());
    add_chunked(c, b, n);
    c->left--;
}
static void tail(conn *c) {
    char b[700];
    int n = sprintf(b,
        "data: {\"id\":\"chatcmpl-stub\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
        "\"model\":\"stub\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
        "data: {\"id\":\"chatcmpl-stub\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
        "\"model\":\"stub\",\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":%d,"
        "\"total_tokens\":%d}}\n\ndata: [DONE]\n\n", c->total, c->total + 12);
    add_chunked(c, b, n);
    add(c, "0\r\n\r\n", 5);
}
static int parse(conn *c);

/* advance a stream: one chunk per call. returns -1 when the connection is gone */
static int step(conn *c, uint64_t now) {
    if (c->phase == 0) {
        static const char H[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                                "Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n";
        add(c, H, sizeof H - 1);
        c->phase = 1;
    }
    if (c->left > 0) content_chunk(c);
    int r = flush_out(c);
    if (r <= 0) return r;
    if (c->left == 0 && c->phase == 1) {
        tail(c);
        c->phase = 3;
        r = flush_out(c);
        if (r <= 0) return r;
    }
    if (c->phase == 3) {
        c->streaming = 0;
        hdel(c);
        set_events(c, 0);
        return parse(c);
    }
    if (c->gap_ms) {
        c->due += (uint64_t)c->gap_ms * 1000000ull;
        if (c->due + 1000000000ull < now) c->due = now; /* hopelessly late: do not burst */
        if (c->heap_pos) hdown(c->heap_pos); else hpush(c);
        set_events(c, 0);
    } else {
        set_events(c, 1); /* flat out: next chunk when epoll comes round again */
    }
    return 0;
}
static long field(const char *b, const char *end, const char *name, long dflt) {
    const char *p = memmem(b, end - b, name, strlen(name));
    if (!p) return dflt;
    p += strlen(name);
    while (p < end && (*p == ' ' || *p == ':')) p++;
    if (p < end && *p == 't') return 1;
    if (p < end && *p >= '0' && *p <= '9') return strtol(p, NULL, 10);
    return dflt;
}
static int reply(conn *c, int code, const char *body) {
    char b[900];
    int n = sprintf(b, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                    code, code == 200 ? "OK" : "Unauthorized", strlen(body), body);
    add(c, b, n);
    return flush_out(c) < 0 ? -1 : 0;
}
static const char *header(const char *b, const char *end, const char *name) {
    size_t n = strlen(name);
    for (const char *p = b; p < end; ) {
        const char *e = memchr(p, '\n', end - p);
        if (!e) return NULL;
        if ((size_t)(e - p) > n && !strncasecmp(p, name, n)) {
            p += n;
            while (*p == ' ') p++;
            return p;
        }
        p = e + 1;
    }
    return NULL;
}
/* consume one complete request from the input buffer, if there is one */
static int parse(conn *c) {
    while (!c->streaming && c->in_len > 0 && c->out_len == 0) {
        char *he = memmem(c->in, c->in_len, "\r\n\r\n", 4);
        if (!he) return 0;
        char *body = he + 4, *end = c->in + c->in_len;
        const char *h;
        int used;
        if ((h = header(c->in, body, "content-length:"))) {
            long n = strtol(h, NULL, 10);
            if (end - body < n) return 0;
            used = body + n - c->in;
        } else if (header(c->in, body, "transfer-encoding:")) {
            char *z = memmem(body, end - body, "0\r\n\r\n", 5);
            if (!z) return 0;
            used = z + 5 - c->in;
        } else used = body - c->in;
        char *bend = c->in + used;
        int r = 0;
        char *path = memchr(c->in, ' ', body - c->in);
        if (path && !strncmp(path + 1, "/v1/chat/completions", 20)) {
            if (field(body, bend, "\"stream\"", 0) == 1) {
                c->streaming = 1;
                c->phase = 0;
                c->total = c->left = (int)field(body, bend, "\"max_tokens\"", field(body, bend, "\"max_completion_tokens\"", 50));
                c->gap_ms = (int)field(body, bend, "\"seed\"", 0);
                c->due = now_ns();
                r = step(c, c->due);
            } else {
                r = reply(c, 200,
                    "{\"id\":\"chatcmpl-stub\",\"object\":\"chat.completion\",\"created\":1700000000,"
                    "\"model\":\"stub\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
                    "\"content\":\"Hello! How can I help you today?\"},\"logprobs\":null,"
                    "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":12,"
                    "\"completion_tokens\":9,\"total_tokens\":21}}");
            }
        } else if (path && !strncmp(path + 1, "/auth", 5)) {
            h = header(c->in, body, "authorization:");
            int ok = h && !strncasecmp(h, "bearer ", 7) && !strncmp(h + 7, auth_key, strlen(auth_key));
            r = reply(c, ok ? 200 : 401, "{}");
        } else {
            r = reply(c, 200,
                "{\"object\":\"list\",\"data\":[{\"id\":\"stub\",\"object\":\"model\"}],"
                "\"model_path\":\"stub\",\"status\":\"ok\",\"version\":\"0\"}");
        }
        if (r < 0) return -1;
        memmove(c->in, c->in + used, c->in_len - used);
        c->in_len -= used;
    }
    return 0;
}
int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    int port = argc > 1 ? atoi(argv[1]) : 19000;
    if (argc > 2) auth_key = argv[2];
    int ls = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
    setsockopt(ls, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(ls, (void *)&a, sizeof a) || listen(ls, 4096)) { perror("bind"); return 1; }
    int us = -1;
    if (argc > 3) { /* the same upstream at a Unix socket, as tunnels give it */
        struct sockaddr_un u = {.sun_family = AF_UNIX};
        strncpy(u.sun_path, argv[3], sizeof u.sun_path - 1);
        unlink(argv[3]);
        us = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (bind(us, (void *)&u, sizeof u) || listen(us, 4096)) { perror("bind"); return 1; }
    }
    ep = epoll_create1(0);
    tfd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL}, evs[512];
    epoll_ctl(ep, EPOLL_CTL_ADD, ls, &e);
    e.data.ptr = &tfd;
    epoll_ctl(ep, EPOLL_CTL_ADD, tfd, &e);
    if (us >= 0) { e.data.ptr = &us; epoll_ctl(ep, EPOLL_CTL_ADD, us, &e); }
    uint64_t armed = 0;
    for (;;) {
        if (heap_n && heap[1]->due != armed) {
            armed = heap[1]->due;
            struct itimerspec it = {.it_value = {armed / 1000000000ull, armed % 1000000000ull}};
            timerfd_settime(tfd, TFD_TIMER_ABSTIME, &it, NULL);
        }
        int n = epoll_wait(ep, evs, 512, -1);
        for (int i = 0; i < n; i++) {
            void *p = evs[i].data.ptr;
            if (!p || p == &us) {
                for (;;) {
                    int fd = accept4(p ? us : ls, NULL, NULL, SOCK_NONBLOCK);
                    if (fd < 0) break;
                    if (fd >= MAXFD) { close(fd); continue; }
                    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                    conn *c = calloc(1, sizeof *c);
                    c->fd = fd;
                    c->in = malloc(INBUF);
                    conns[fd] = c;
                    e.events = EPOLLIN | EPOLLRDHUP;
                    e.data.ptr = c;
                    epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
                }
                continue;
            }
            if (p == &tfd) { uint64_t x; if (read(tfd, &x, 8) < 0) {} armed = 0; continue; }
            conn *c = p;
            int r = 0;
            if (evs[i].events & (EPOLLERR | EPOLLHUP)) r = -1;
            if (r == 0 && evs[i].events & EPOLLIN) {
                for (;;) {
                    if (c->in_len >= INBUF) { r = -1; break; }
                    ssize_t k = read(c->fd, c->in + c->in_len, INBUF - c->in_len);
                    if (k == 0) { r = -1; break; }
                    if (k < 0) { if (errno != EAGAIN) r = -1; break; }
                    c->in_len += k;
                    if (c->in_len < INBUF) break; /* level-triggered: come back if more */
                }
                if (r == 0) r = parse(c);
            }
            if (r == 0 && evs[i].events & EPOLLOUT && c->want_out) {
                r = flush_out(c);
                if (r == 1) {
                    r = 0;
                    if (c->streaming) {
                        if (c->gap_ms && c->phase == 1) {
                            set_events(c, 0);
                            if (!c->heap_pos) { c->due = now_ns(); hpush(c); }
                        }
                        else r = step(c, now_ns());
                    } else { set_events(c, 0); r = parse(c); }
                }
            }
            if (r < 0) drop(c);
        }
        if (heap_n) {
            uint64_t now = now_ns();
            while (heap_n && heap[1]->due <= now) {
                conn *c = heap[1];
                if (c->out_len) { /* reader is behind: wait a tick, do not pile up */
                    c->due = now + 1000000ull;
                    hdown(1);
                    continue;
                }
                if (step(c, now) < 0) drop(c);
            }
        }
    }
}
