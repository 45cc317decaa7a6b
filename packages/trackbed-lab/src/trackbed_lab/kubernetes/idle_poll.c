/* Preloaded in the pods of a proof: a poll for completions that finds none sleeps a millisecond.
 *
 * perftest polls without a pause, as it may on a core that it has alone. Here two cores emulate four nodes, each with one
 * processor that also carries the packets.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <unistd.h>

#define IDLE_MICROSECONDS 1000

/* How ibv_cq and ibv_context begin (struct ibv_context_ops, libibverbs/verbs.h of rdma-core): no verb's place changes. */
struct context {
	void *device;
	void *before_poll_cq[11];
	int (*poll_cq)(void *cq, int count, void *completions);
};
struct cq {
	struct context *context;
};

static int (*poll_cq)(void *cq, int count, void *completions);

static int poll_idly(void *cq, int count, void *completions)
{
	int polled = poll_cq(cq, count, completions);

	if (polled == 0)
		usleep(IDLE_MICROSECONDS);
	return polled;
}

struct cq *ibv_create_cq(void *context, int cqe, void *cq_context, void *channel, int vector)
{
	struct cq *(*create)(void *, int, void *, void *, int) = dlsym(RTLD_NEXT, "ibv_create_cq");
	struct cq *cq = create == NULL ? NULL : create(context, cqe, cq_context, channel, vector);

	if (cq != NULL && cq->context->poll_cq != poll_idly) {
		poll_cq = cq->context->poll_cq;
		cq->context->poll_cq = poll_idly;
	}
	return cq;
}
