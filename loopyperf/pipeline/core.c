/* Simulation of a core whose warps issue in program order (a scoreboard), in whole ticks. Rules (docs/errata.md):

   1. An instruction issues at the earliest time at which its predecessors are complete (wait_for_results), its
      subsystem is free, and the issue limit allows it; among several ready warps, the scheduler chooses (chosen).
   2. It is complete Λ later (issue).
   3. A barrier releases a group Λ after the last of its unfinished warps has issued it (settle).
   4. A waiting group replaces a complete one (begin_group).

   Each warp has one next instruction, and once its predecessors have issued, the time at which it is ready is known. So
   the only events are issues and starts of groups.

   Periodic parts are simulated once. At each iteration of each loop of one warp, and at the start of groups, the state
   of the core is compared with earlier ones, with times relative to now (see "steady states" below).

   Assertions, which `make sanitize` compiles, check each index that is computed: warps share one allocation, so that
   AddressSanitizer does not see all errors. */

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

#define NEVER INT64_MAX
#define LAST (INT64_C(1) << 61) /* latest time: the sum of a time and some latencies has to fit too */
#define NONE (-1)

enum { CONSTANT, PASS, ADD, MULTIPLY, FLOOR, REMAINDER, MINIMUM, MAXIMUM,
       EQUAL, UNEQUAL, LESS, AT_MOST, AND, OR, NOT, CHOOSE };

typedef enum { OUTSIDE, WAITING, READY, HELD } State;

typedef struct {
    State state;       /* no next instruction, waiting for operands, ready to be scheduled, waiting at a barrier */
    int32_t slot;      /* slot of its group */
    int32_t step;      /* step of its next instruction */
    int32_t place;     /* its next instruction */
    int32_t subsystem; /* subsystem of its next instruction */
    int32_t reason, source; /* see Row */
    const int32_t *map; /* program's subsystem -> core's subsystem */
    int64_t number;    /* number in order of start, from 0 */
    int64_t stamp;     /* sequence number of its latest activity */
    int64_t rank;      /* scheduling priority; the lowest comes first */
    int64_t complete;  /* completion time of its operands */
    int64_t able;      /* time from which it could issue if its operands were complete */
    int64_t *passes;   /* current iterations of the loops around it */
    int64_t *trips;    /* trip counts of these loops */
    int64_t *results;  /* completion times of the latest results of each instruction, in ring buffers */
    int64_t *of;       /* iterations of these results, for instructions whose results are searched */
    int32_t *newest;   /* position of each instruction's newest result in its ring buffer */
} Warp;

typedef struct {
    int64_t end;       /* time at which everything issued is complete */
    int64_t release;   /* Λ of the barrier at which warps wait */
    int32_t unfinished, held; /* numbers of warps not finished, and waiting at a barrier */
    bool is_vacant;    /* the slot is free from *end* on */
} Group;

typedef struct { int32_t next, previous; } Link;

/* An earlier state, for comparison. */
typedef struct {
    uint64_t key[2];
    int64_t number, time, issued, made, begun;
    int32_t active;    /* number of active warps */
    int64_t *passes;   /* iterations of all warps */
    int64_t *busy;     /* busy times of all subsystems */
} Kept;

#define KEPT 256       /* states stored per loop, at most */
#define BATCHES 8      /* batches whose rates are compared, at most */
#define FEWEST 2       /* iterations in a batch, at least */
#define PATIENCE 20000 /* issues without an iteration of the monitored warp after which another one is monitored */
#define ALL 100000     /* issues simulated before any is extrapolated at a settled rate */
#define WORTH 5000     /* issues that cost as much as a question; for fewer to skip, none is asked */
#define DOUBT 16       /* issues until the next question after a useless answer; doubles each time */
#define HASTE 100000   /* issues after which the tolerance grows in proportion to their number */
#define WAVES 1        /* full sets of resident groups that must start before the rate of groups can settle, and that
                          must remain after a skip */
#define STILL 2        /* for age-based schedulers: some warps may make no progress if this many times as many do */
#define MOST_OFTEN 8   /* for age-based schedulers: repetitions of a batch at a settled rate, at most */
#define PARTS 64       /* fractions into which work at a settled rate is divided, so that part of it can be repeated */

/* The earlier states at one loop, or at the start of groups. */
typedef struct {
    int64_t number;    /* iteration, or number of groups started, of the last state examined */
    int64_t seen;      /* states examined since the loop was entered */
    int64_t stride;    /* every stride-th state is stored */
    int64_t pause;     /* no state is examined before this number of simulated issues */
    int64_t doubt;     /* issues to wait after the last useless answer; 0 after a useful one */
    int32_t count;
    Kept kept[KEPT];
    int64_t batch;     /* iterations or groups between marks, at least */
    double rate;       /* settled number of ticks per issue; 0 before it has settled */
    double deviation;  /* tolerated deviation of a batch from that rate */
    double error;      /* relative uncertainty of the rate */
    int32_t marks_count;
    Kept marks[BATCHES + 1];
} History;

struct Core {
    Scenario given;
    bool skips;
    double tolerance;
    Progress progress;
    int32_t warps_number, results_number;
    Warp *warps;
    Group *groups;
    int64_t *free;     /* time from which each subsystem is free */
    int64_t *first;    /* earliest next issue of each subsystem, ignoring the issue limit; NEVER without queued warps */
    int32_t *in_line;  /* subsystems with queued warps */
    int32_t *standing; /* position of each subsystem in *in_line*; NONE if it is not there */
    int32_t in_line_number;
    int64_t *busy;     /* busy time of each subsystem */
    int64_t *passes, *results; /* memory of all warps */
    int32_t *newest;
    Link *links;       /* links of queued warps, then the sentinels of the circular queues: two per subsystem */
    int64_t *stack;
    int64_t *wanted;
    int64_t opened;    /* time from which the issue limit allows an issue */
    int64_t begun;     /* number of groups started */
    int64_t counter;   /* next stamp */
    int64_t slice;     /* time from which the current warp has priority */
    int32_t current;
    int32_t vacant;    /* the slot that is vacant first; NONE */
    Row *rows;
    int32_t rows_number;
    int32_t watched;   /* the monitored warp: states are compared at its iterations */
    int64_t watched_at; /* simulated issues when it last started an iteration */
    int32_t event;     /* pending comparison of states: a loop's REPEAT, or steps_number for groups; NONE */
    History *histories;
    Kept *candidate;   /* state since which everything may repeat; NULL */
    bool is_equal;     /* the present state equals it; otherwise only the rate is equal since then */
    int64_t *moved;    /* iterations that each warp has advanced since then */
    double rate;       /* settled rate since then */
    int64_t parts;     /* fractions into which the work since then is divided; 1 if it is repeated as a whole */
    double share;      /* share of the issues since then that each repetition skips: about 1 */
    int32_t *level;    /* level of the loop in which each warp has advanced */
    int64_t *answers;  /* iteration before which all are periodic, for each warp; NONE if unknown */
    int32_t asked;     /* the warp of the pending question */
    bool has_asked;    /* whether a question about the candidate was asked */
    int32_t *by_stamp;
    int64_t state_size; /* approximate number of integers in a state */
};

/* {{{ expressions of loop iterations */

static int64_t floor_of(int64_t one, int64_t other)
{
    return one / other - (one % other < 0);
}

static int64_t applied(int32_t operation, int64_t one, int64_t other)
{
    switch (operation) {
    case ADD: return one + other;
    case MULTIPLY: return one * other;
    case FLOOR: return floor_of(one, other);
    case REMAINDER: return one - floor_of(one, other) * other;
    case MINIMUM: return one < other ? one : other;
    case MAXIMUM: return one > other ? one : other;
    case AND: return one && other;
    case OR: return one || other;
    case EQUAL: return one == other;
    case UNEQUAL: return one != other;
    case LESS: return one < other;
    default: return one <= other;
    }
}

/* Return the place of the warp's current iteration of the loop at a level. */
static inline int64_t *iteration(const Core *core, const Warp *warp, int32_t level)
{
    assert(level >= 0 && level < core->given.deepest);
    return warp->passes + level;
}

static int64_t evaluated(const Core *core, const Warp *warp, const Operation *operation, const Operation *end)
{
    assert(operation < end && end <= core->given.operations + core->given.operations_number);
    int64_t *top = core->stack - 1;
    for (; operation < end; operation++) {
        switch (operation->operation) {
        case CONSTANT: *++top = operation->number; break;
        case PASS: *++top = *iteration(core, warp, operation->level) + operation->number; break;
        case NOT: *top = !*top; break;
        case CHOOSE: top -= 2; *top = top[0] ? top[1] : top[2]; break;
        default: top--; *top = applied(operation->operation, top[0], top[1]);
        }
    }
    return *top;
}

/* Return the value of an expression for a warp. Nearly all are a constant, or an iteration plus a constant. */
static inline int64_t value(const Core *core, const Warp *warp, int32_t expression)
{
    const Operation *first = core->given.operations + core->given.expressions[expression];
    const Operation *end = core->given.operations + core->given.expressions[expression + 1];
    if (end == first + 1)
        return (first->operation == PASS ? *iteration(core, warp, first->level) : 0) + first->number;
    return evaluated(core, warp, first, end);
}

/* }}} */

/* {{{ rule 1: when an instruction can issue */

/* Return the position among all results of a warp of the one at position *at* of an instruction's ring buffer. */
static inline int32_t in_ring(const Core *core, const Instruction *source, int32_t at)
{
    assert(at >= 0 && at < source->kept);
    assert(source->results >= 0 && source->results + source->kept <= core->results_number);
    assert(source->number >= 0 && source->number < core->given.most_instructions);
    return source->results + at;
}

/* Return where the warp keeps the iterations of the result at a position among all results. */
static inline int64_t *iterations_of(const Core *core, const Warp *warp, int32_t position)
{
    return warp->of + (int64_t)position * core->given.deepest;
}

/* Return when the result that the warp needs by an edge is complete; 0 if there is none or it is by *since*. */
static int64_t complete_at(Core *core, const Warp *warp, const Edge *edge, int64_t since)
{
    const Scenario *given = &core->given;
    const Instruction *source = given->instructions + edge->source;
    int32_t size = source->kept, at = warp->newest[source->number];
    if (edge->back >= 0) {
        if (edge->lag && *iteration(core, warp, edge->level) < edge->lag)
            return 0;
        if (edge->back >= size)
            return 0;
        at -= edge->back;
        return warp->results[in_ring(core, source, at < 0 ? at + size : at)];
    }
    for (int32_t level = 0; level < source->depth; level++)
        core->wanted[level] = value(core, warp, given->passes[edge->passes + level]);
    for (int32_t k = 0; k < size; k++) {
        /* Results of one instruction complete in order; those of an earlier group completed long ago. */
        int32_t position = in_ring(core, source, at);
        if (warp->results[position] <= since)
            return 0;
        if (memcmp(iterations_of(core, warp, position), core->wanted, sizeof(int64_t) * (size_t)source->depth) == 0)
            return warp->results[position];
        at = at > 0 ? at - 1 : size - 1;
    }
    return 0;
}

/* Set the completion time of the operands of the warp's next instruction, which could issue at *since* without them. */
static inline void wait_for_results(Core *core, Warp *warp, int64_t since)
{
    const Scenario *given = &core->given;
    const Instruction *next = given->instructions + warp->place;
    warp->complete = since;
    warp->source = NONE;
    for (int32_t e = next[0].edges; e < next[1].edges; e++) {
        const Edge *edge = given->edges + e;
        const Instruction *source = given->instructions + edge->source;
        if (source->kept == 0)
            continue;
        /* Most results are already complete: neither conditions nor iterations matter for them. */
        if (warp->results[in_ring(core, source, warp->newest[source->number])] <= warp->complete)
            continue;
        if (edge->condition >= 0 && !value(core, warp, edge->condition))
            continue;
        int64_t time = complete_at(core, warp, edge, since);
        if (time > warp->complete) {
            warp->complete = time;
            warp->source = edge->source;
        }
    }
}

/* Record that warp x starts an iteration of the loop that ends in *step*; states are compared at those of one warp. */
static inline void look(Core *core, int32_t x, int32_t step)
{
    if (x != core->watched) {
        if (core->progress.made < core->watched_at + PATIENCE)
            return;
        core->watched = x; /* the monitored warp has not started an iteration for long */
    }
    core->watched_at = core->progress.made;
    core->event = step;
}

/* Advance warp x from *step* to the next instruction that it executes; return whether there is one. */
static inline bool to_next(Core *core, int32_t x, int32_t step)
{
    Warp *warp = core->warps + x;
    for (;;) {
        assert(step >= 0 && step < core->given.steps_number);
        const Step *at = core->given.steps + step;
        switch (at->kind) {
        case INSTRUCTION:
            if (at->expression < 0 || value(core, warp, at->expression)) {
                warp->step = step;
                warp->place = at->argument;
                return true;
            }
            step++;
            break;
        case ENTER:
            *iteration(core, warp, at->argument) = 0;
            warp->trips[at->argument] = value(core, warp, at->expression);
            step = warp->trips[at->argument] > 0 ? step + 1 : at->jump;
            break;
        case REPEAT:
            if (++*iteration(core, warp, at->argument) < warp->trips[at->argument]) {
                if (core->skips)
                    look(core, x, step);
                step = at->jump;
            } else
                step++;
            break;
        default:
            warp->step = step;
            return false;
        }
    }
}

/* }}} */

/* {{{ queues of each subsystem: warps that wait for operands, by completion time, and ready warps, by rank

   A warp is inserted from the end whose key is nearer to its own, because most warps become ready after all others. */

static inline int32_t queue_of(const Core *core, int32_t q, State state)
{
    return core->warps_number + 2 * q + (state == READY);
}

static inline int64_t key_of(const Core *core, State state, int32_t x)
{
    return state == READY ? core->warps[x].rank : core->warps[x].complete;
}

static inline bool is_before(const Core *core, State state, int32_t one, int32_t other)
{
    int64_t first = key_of(core, state, one), second = key_of(core, state, other);
    return first < second || (first == second && one < other);
}

static inline void unlinked(Core *core, int32_t x)
{
    Link *links = core->links;
    links[links[x].previous].next = links[x].next;
    links[links[x].next].previous = links[x].previous;
}

static inline void line_up(Core *core, int32_t x, State state)
{
    Warp *warp = core->warps + x;
    Link *links = core->links;
    assert(x >= 0 && x < core->warps_number);
    assert(warp->subsystem >= 0 && warp->subsystem < core->given.subsystems);
    int32_t own = queue_of(core, warp->subsystem, state);
    int32_t before = links[own].previous, after = own;
    if (before != own && is_before(core, state, x, before)) {
        int64_t key = key_of(core, state, x);
        if (key_of(core, state, before) - key <= key - key_of(core, state, links[own].next))
            for (; before != own && is_before(core, state, x, before); before = links[before].previous)
                after = before;
        else {
            for (after = links[own].next; is_before(core, state, after, x); after = links[after].next)
                ;
            before = links[after].previous;
        }
    }
    links[before].next = links[after].previous = x;
    links[x] = (Link){after, before};
    warp->state = state;
}

static inline int32_t first_of(const Core *core, int32_t q, State state)
{
    int32_t first = core->links[queue_of(core, q, state)].next;
    return first < core->warps_number ? first : NONE;
}

/* Update the earliest next issue of a subsystem. */
static inline void refresh(Core *core, int32_t q)
{
    int32_t waiting = first_of(core, q, WAITING), at = core->standing[q];
    int64_t complete = waiting < 0 ? NEVER : core->warps[waiting].complete;
    complete = first_of(core, q, READY) >= 0 ? 0 : complete;
    core->first[q] = complete > core->free[q] ? complete : core->free[q];
    if (complete < NEVER && at == NONE) {
        core->standing[q] = core->in_line_number;
        core->in_line[core->in_line_number++] = q;
    } else if (complete == NEVER && at != NONE) {
        int32_t last = core->in_line[--core->in_line_number];
        core->in_line[at] = last;
        core->standing[last] = at;
        core->standing[q] = NONE;
    }
}

/* }}} */

/* {{{ warp scheduling */

/* Move the warps of a subsystem that have become ready to its ready queue. */
static inline void line_up_ready(Core *core, int32_t q, int64_t time)
{
    int32_t x;
    while ((x = first_of(core, q, WAITING)) >= 0 && core->warps[x].complete <= time) {
        unlinked(core, x);
        line_up(core, x, READY);
    }
}

/* Return the warp to issue at *time*; NONE if none can, and then *later* is the earliest time at which one can. */
static int32_t first_in_turn(Core *core, int64_t time, int64_t *later)
{
    int32_t best = NONE;
    int64_t rank = 0;
    *later = NEVER;
    for (int32_t k = 0; k < core->in_line_number; k++) {
        int32_t q = core->in_line[k];
        if (core->first[q] > time) {
            *later = core->first[q] < *later ? core->first[q] : *later;
            continue;
        }
        line_up_ready(core, q, time);
        int32_t x = first_of(core, q, READY);
        if (best < 0 || core->warps[x].rank < rank) {
            best = x;
            rank = core->warps[x].rank;
        }
    }
    return best;
}

static int32_t longest_waiting(Core *core, int64_t time)
{
    int32_t best = NONE;
    for (int32_t k = 0; k < core->in_line_number; k++) {
        int32_t q = core->in_line[k];
        if (core->first[q] > time)
            continue;
        line_up_ready(core, q, time);
        for (int32_t x = first_of(core, q, READY); x < core->warps_number; x = core->links[x].next)
            if (best < 0 || core->warps[x].stamp < core->warps[best].stamp)
                best = x;
    }
    return best;
}

/* Return whether the warp that issued last can issue again at *time*. */
static inline bool can_go_on(const Core *core, int64_t time)
{
    const Warp *warp = core->warps + core->current;
    return (warp->state == READY || (warp->state == WAITING && warp->complete <= time)) &&
           core->free[warp->subsystem] <= time;
}

/* Return the warp that issues next, and set *time*. NONE: a vacant slot has to be filled first, or all work is done. */
static int32_t chosen(Core *core, int64_t *time)
{
    int64_t later = NEVER;
    for (*time = core->opened;; *time = later) {
        bool is_over = false;
        if (core->vacant >= 0 && core->groups[core->vacant].end <= *time)
            return NONE;
        if (core->current >= 0 && can_go_on(core, *time)) {
            if (*time - core->slice < core->given.goes_on)
                return core->current;
            is_over = core->given.goes_on > 0 && core->given.by_age;
        }
        int32_t x = is_over ? longest_waiting(core, *time) : first_in_turn(core, *time, &later);
        if (x >= 0) {
            core->current = x;
            core->slice = *time;
            return x;
        }
        if (later == NEVER && core->vacant < 0)
            return NONE;
    }
}

/* }}} */

/* {{{ rules 2 to 4: effects of an issue, barriers, groups */

static inline void stamp(Core *core, Warp *warp)
{
    warp->stamp = core->counter++;
}

/* Advance warp x to its next instruction, which could issue at *since* if its operands were complete. */
static void advance(Core *core, int32_t x, int32_t step, int64_t since, int32_t reason)
{
    Warp *warp = core->warps + x;
    if (!to_next(core, x, step)) {
        warp->state = OUTSIDE;
        core->groups[warp->slot].unfinished--;
        return;
    }
    wait_for_results(core, warp, since);
    warp->able = since;
    warp->reason = reason;
    warp->rank = core->given.by_age ? core->given.by_age * warp->number : warp->stamp;
    assert(core->given.instructions[warp->place].subsystem < core->given.most_subsystems);
    warp->subsystem = warp->map[core->given.instructions[warp->place].subsystem];
    if (warp->complete <= core->opened)
        line_up(core, x, READY);
    else
        line_up(core, x, WAITING);
    refresh(core, warp->subsystem);
}

static void find_vacant(Core *core)
{
    core->vacant = NONE;
    for (int32_t slot = 0; slot < core->given.slots; slot++)
        if (core->groups[slot].is_vacant && (core->vacant < 0 || core->groups[slot].end < core->groups[core->vacant].end))
            core->vacant = slot;
}

/* Release a group if all its warps have reached a barrier, and record when a finished group is complete. */
static void settle(Core *core, int32_t slot, int64_t time)
{
    Group *group = core->groups + slot;
    int32_t first = slot * core->given.warps_per_group, end = first + core->given.warps_per_group;
    if (group->held > 0 && group->held == group->unfinished) {
        int64_t release = time + group->release;
        if (group->end < release)
            group->end = release;
        group->held = 0;
        for (int32_t x = first; x < end; x++)
            if (core->warps[x].state == HELD)
                advance(core, x, core->warps[x].step + 1, release, AT_BARRIER);
    }
    if (group->unfinished == 0) {
        if (core->progress.finish < group->end)
            core->progress.finish = group->end;
        group->is_vacant = true;
        find_vacant(core);
    }
}

/* Start the next waiting group, if any, in a vacant slot. */
static void begin_group(Core *core, int32_t slot)
{
    Group *group = core->groups + slot;
    int64_t time = group->end;
    group->is_vacant = false;
    find_vacant(core);
    if (core->begun == core->given.total_groups)
        return;
    core->progress.time = time;
    if (core->skips && (core->begun + 1) % core->given.window == 0)
        core->event = core->given.steps_number;
    int64_t first = core->begun++ * core->given.warps_per_group;
    group->unfinished = core->given.warps_per_group;
    if (core->current >= 0 && core->warps[core->current].slot == slot)
        core->current = NONE;
    for (int32_t warp = 0; warp < core->given.warps_per_group; warp++) {
        int32_t x = slot * core->given.warps_per_group + warp;
        core->warps[x].number = first + warp;
        int64_t kind = (first + warp) % core->given.kinds_number;
        core->warps[x].map = core->given.maps + kind * core->given.most_subsystems;
        /* The rings of another program have other sizes. Results in them are complete, whatever program left them. */
        memset(core->warps[x].newest, 0, sizeof(int32_t) * (size_t)core->given.most_instructions);
        stamp(core, core->warps + x);
        advance(core, x, core->given.kinds[kind], time, AT_START);
    }
    settle(core, slot, time);
}

static void record(Core *core, const Warp *warp, int64_t time)
{
    core->rows[core->rows_number++] = (Row){
        warp->number, warp->place, time, warp->able, warp->reason, warp->complete, warp->source,
        core->free[warp->subsystem], core->opened,
    };
}

static void keep_result(Core *core, Warp *warp, const Instruction *done, int64_t complete)
{
    if (done->kept == 0)
        return;
    int32_t at = warp->newest[done->number] + 1;
    at = at == done->kept ? 0 : at;
    warp->newest[done->number] = at;
    int32_t position = in_ring(core, done, at);
    warp->results[position] = complete;
    if (done->is_searched)
        memcpy(iterations_of(core, warp, position), warp->passes, sizeof(int64_t) * (size_t)done->depth);
}

static void issue(Core *core, int32_t x, int64_t time)
{
    Warp *warp = core->warps + x;
    const Instruction *done = core->given.instructions + warp->place;
    Group *group = core->groups + warp->slot;
    int32_t q = warp->subsystem;
    unlinked(core, x);
    if (core->rows)
        record(core, warp, time);
    core->free[q] = time + done->issue;
    core->busy[q] += done->issue;
    core->opened = time + core->given.gap;
    core->progress.time = time;
    core->progress.issued++;
    core->progress.made++;
    stamp(core, warp);
    if (done->is_barrier) {
        warp->state = HELD;
        group->held++;
        group->release = done->completion;
    } else {
        int64_t complete = time + done->completion;
        keep_result(core, warp, done, complete);
        if (group->end < complete)
            group->end = complete;
        advance(core, x, warp->step + 1, time, IN_ORDER);
    }
    if (warp->state == HELD || warp->state == OUTSIDE || warp->subsystem != q)
        refresh(core, q);
    if (group->held == group->unfinished)
        settle(core, warp->slot, time);
}

/* }}} */

/* {{{ steady states

   The state determines the future of the core; all times in it are relative to now, and iterations relative to another
   state. If two states are equal except that each warp has advanced some iterations of one loop around it, or some
   groups, the work in between repeats as long as these iterations are periodic or groups remain. States are compared by
   a 128-bit hash. At each loop, KEPT states are stored; when there are more, every second one is dropped, so that a
   period of any length is found.

   If nothing repeats, and the caller allows it, the rate at which iterations (or groups) follow each other is measured
   in at least four consecutive batches. Once these agree to within the tolerance, the core continues at that rate. */

static inline void mix(uint64_t key[2], int64_t number)
{
    key[0] = (key[0] ^ (uint64_t)number) * UINT64_C(0x9E3779B97F4A7C15);
    key[0] ^= key[0] >> 32;
    key[1] = (key[1] + (uint64_t)number) * UINT64_C(0xC2B2AE3D27D4EB4F);
    key[1] ^= key[1] >> 29;
}

static inline int64_t from_now(const Core *core, int64_t time)
{
    return time > core->progress.time ? time - core->progress.time : 0;
}

static inline int32_t loop_around(const Core *core, int32_t step, int32_t level)
{
    assert(level >= 0 && level < core->given.steps[step].depth);
    return core->given.around[(int64_t)step * core->given.deepest + level];
}

static inline int32_t depth_of(const Core *core, const Warp *warp)
{
    return core->given.steps[warp->step].depth;
}

/* Return the first instruction of the warp's program. */
static inline const Instruction *first_instruction(const Core *core, const Warp *warp)
{
    const Instruction *next = core->given.instructions + warp->place;
    return next - next->number;
}

static void mix_result(uint64_t key[2], const Core *core, const Warp *warp, const Instruction *source, int32_t position)
{
    const int64_t *of = iterations_of(core, warp, position);
    for (int32_t level = 0; level < source->depth; level++) {
        bool is_common = level < depth_of(core, warp) &&
                         loop_around(core, source->step, level) == loop_around(core, warp->step, level);
        mix(key, is_common ? warp->passes[level] - of[level] : of[level]);
    }
}

static void mix_results(uint64_t key[2], const Core *core, const Warp *warp)
{
    const Instruction *source = first_instruction(core, warp), *end = source + source->of_program;
    for (; source < end; source++) {
        int32_t at = warp->newest[source->number];
        for (int32_t k = 0; k < source->kept; k++) {
            int32_t position = in_ring(core, source, at);
            int64_t late = from_now(core, warp->results[position]);
            if (late == 0)
                break;
            mix(key, source->results + k);
            mix(key, late);
            if (source->is_searched)
                mix_result(key, core, warp, source, position);
            at = at > 0 ? at - 1 : source->kept - 1;
        }
    }
}

static void mix_warp(uint64_t key[2], const Core *core, const Warp *warp)
{
    mix(key, warp->state == OUTSIDE ? 0 : warp->state == HELD ? 1 : 2);
    if (warp->state == OUTSIDE)
        return;
    mix(key, warp->step);
    mix(key, warp->number - core->begun * core->given.warps_per_group);
    if (warp->state != HELD)
        mix(key, from_now(core, warp->complete));
    for (int32_t level = 0; level < depth_of(core, warp); level++) {
        int32_t furthest = core->given.steps[loop_around(core, warp->step, level)].furthest;
        mix(key, warp->trips[level]);
        mix(key, warp->passes[level] < furthest ? warp->passes[level] : furthest);
    }
    mix_results(key, core, warp);
}

/* Hash the order of the warps' latest activities. */
static void mix_order(uint64_t key[2], Core *core)
{
    int32_t *order = core->by_stamp;
    int32_t number = 0;
    for (int32_t x = 0; x < core->warps_number; x++) {
        if (core->warps[x].state == OUTSIDE)
            continue;
        int32_t at = number++;
        for (; at > 0 && core->warps[order[at - 1]].stamp > core->warps[x].stamp; at--)
            order[at] = order[at - 1];
        order[at] = x;
    }
    for (int32_t k = 0; k < number; k++)
        mix(key, order[k]);
}

static void find_key(uint64_t key[2], Core *core)
{
    const Scenario *given = &core->given;
    key[0] = key[1] = 0;
    mix(key, from_now(core, core->opened));
    /* A warp with unlimited priority has no time slice that ends. */
    int64_t goes_on = given->goes_on < LAST ? given->goes_on : 0, gone = core->progress.time - core->slice;
    mix(key, gone < goes_on ? gone : goes_on);
    mix(key, core->current);
    mix(key, core->begun * given->warps_per_group % given->kinds_number);
    for (int32_t q = 0; q < given->subsystems; q++)
        mix(key, from_now(core, core->free[q]));
    for (int32_t slot = 0; slot < given->slots; slot++) {
        const Group *group = core->groups + slot;
        mix(key, group->is_vacant);
        mix(key, group->unfinished);
        mix(key, group->held);
        mix(key, group->held ? group->release : 0);
        mix(key, from_now(core, group->end));
    }
    for (int32_t x = 0; x < core->warps_number; x++)
        mix_warp(key, core, core->warps + x);
    mix_order(key, core);
}

static int32_t active_warps(const Core *core)
{
    int32_t number = 0;
    for (int32_t x = 0; x < core->warps_number; x++)
        number += core->warps[x].state != OUTSIDE;
    return number;
}

static bool keep(const Core *core, Kept *kept, const uint64_t key[2], int64_t number)
{
    size_t passes = sizeof(int64_t) * (size_t)core->warps_number * (size_t)core->given.deepest;
    size_t busy = sizeof(int64_t) * (size_t)core->given.subsystems;
    if (!kept->passes) {
        kept->passes = malloc(passes + busy);
        if (!kept->passes)
            return false;
        kept->busy = kept->passes + passes / sizeof(int64_t);
    }
    kept->key[0] = key[0];
    kept->key[1] = key[1];
    kept->number = number;
    kept->time = core->progress.time;
    kept->issued = core->progress.issued;
    kept->made = core->progress.made;
    kept->begun = core->begun;
    kept->active = active_warps(core);
    for (int32_t x = 0; x < core->warps_number; x++)
        memcpy(kept->passes + (int64_t)x * core->given.deepest, core->warps[x].passes,
               sizeof(int64_t) * (size_t)core->given.deepest);
    memcpy(kept->busy, core->busy, busy);
    return true;
}

static inline void swap(Kept *one, Kept *other)
{
    Kept third = *one;
    *one = *other;
    *other = third;
}

/* Drop every second state; return the number left. */
static int32_t thinned(Kept *kept, int32_t count)
{
    for (int32_t k = 0; 2 * k < count; k++)
        swap(kept + k, kept + 2 * k);
    return (count + 1) / 2;
}

static void forget(History *history)
{
    history->seen = history->count = history->marks_count = 0;
    history->stride = 1;
}

static bool is_near(const Core *core, int32_t x, int32_t loop, int32_t level, int64_t span)
{
    return core->moved[x] && core->level[x] == level && loop_around(core, core->warps[x].step, level) == loop &&
           llabs(core->moved[x] - span) <= 2 + span / 4;
}

/* Return whether extrapolation at a settled rate is possible: all active warps have advanced in loops (age-based
   schedulers allow a few exceptions), and none has started another iteration of a loop around that of the monitored
   warp. Except for age-based schedulers, give the warps in its loop their mean progress: that some are slightly ahead
   or behind is chance. */
static bool are_together(Core *core, const Kept *kept)
{
    int64_t span = core->moved[core->watched], total = 0, count = 0, all = 0, still = 0, going = 0;
    int32_t level = core->level[core->watched];
    int32_t loop = loop_around(core, core->warps[core->watched].step, level);
    for (int32_t x = 0; x < core->warps_number; x++) {
        if (core->warps[x].state == OUTSIDE)
            continue;
        if (core->moved[x] ? core->level[x] < level : !core->given.by_age)
            return false;
        still += !core->moved[x];
        going += core->moved[x] > 0;
        all += core->moved[x];
        if (is_near(core, x, loop, level, span)) {
            total += core->moved[x];
            count++;
        }
    }
    int64_t mean = count ? (total + count / 2) / count : 0;
    for (int32_t x = 0; x < core->warps_number && !core->given.by_age; x++)
        if (is_near(core, x, loop, level, span))
            core->moved[x] = mean;
    if (!core->given.by_age)
        core->share = (double)(all - total + count * mean) / (double)all;
    return span > 0 && STILL * still <= going && kept->active == active_warps(core);
}

/* Find how many iterations of which loop each warp has advanced since another state; return whether this explains the
   difference. Unless the states are equal, loops inside that one are ignored. */
static bool find_moves(Core *core, const Kept *kept, bool is_equal)
{
    bool has_begun = core->begun > kept->begun;
    if (has_begun && !is_equal && kept->begun < WAVES * core->given.slots)
        return false;
    core->share = 1;
    if (has_begun && !is_equal)
        core->share = (double)(core->begun - kept->begun) * core->given.issues / (double)(core->progress.issued - kept->issued);
    for (int32_t x = 0; x < core->warps_number; x++) {
        const Warp *warp = core->warps + x;
        const int64_t *before = kept->passes + (int64_t)x * core->given.deepest;
        core->moved[x] = 0;
        core->answers[x] = NONE;
        if (warp->state == OUTSIDE || (has_begun && !is_equal))
            continue;
        for (int32_t level = 0; level < depth_of(core, warp); level++) {
            int64_t moved = warp->passes[level] - before[level];
            if (moved && core->moved[x] == 0) {
                core->moved[x] = moved;
                core->level[x] = level;
            } else if (moved && is_equal)
                return false;
        }
        if (core->moved[x] < 0 || (core->moved[x] && has_begun))
            return false;
    }
    return is_equal || has_begun ? core->share > 0 : are_together(core, kept);
}

static bool is_beside(const Core *core, int32_t one, int32_t other)
{
    const Warp *a = core->warps + one, *b = core->warps + other;
    int32_t level = core->level[one];
    return core->moved[one] == core->moved[other] && level == core->level[other] &&
           loop_around(core, a->step, level) == loop_around(core, b->step, level) &&
           memcmp(a->passes, b->passes, sizeof(int64_t) * (size_t)level) == 0;
}

/* Ask for the iteration before which all are periodic in the loop of warp x and of others in the same loop. */
static void ask(Core *core, int32_t x)
{
    Progress *progress = &core->progress;
    int32_t level = core->level[x];
    progress->asked_loop = loop_around(core, core->warps[x].step, level);
    progress->asked_span = core->moved[x];
    progress->asked_trips = core->warps[x].trips[level];
    progress->asked_outer = core->warps[x].passes;
    progress->asked_first = NEVER;
    int64_t oldest = NEVER;
    for (int32_t y = x; y < core->warps_number; y++) {
        const Warp *warp = core->warps + y;
        if (!core->moved[y] || !is_beside(core, x, y))
            continue;
        int64_t first = warp->passes[level] - core->moved[y];
        progress->asked_first = first < progress->asked_first ? first : progress->asked_first;
        const Instruction *source = first_instruction(core, warp), *end = source + source->of_program;
        for (; source < end; source++)
            for (int32_t k = 0; source->is_searched && source->depth > level && k < source->kept; k++)
                if (warp->results[in_ring(core, source, k)] > core->progress.time) {
                    int64_t of = iterations_of(core, warp, in_ring(core, source, k))[level] - core->moved[y];
                    oldest = of < oldest ? of : oldest;
                }
    }
    progress->asked_oldest = oldest < progress->asked_first ? oldest : progress->asked_first;
    core->asked = x;
}

#define UNKNOWN (-1)

/* Return how many parts of the work since another state surely repeat; UNKNOWN if a question is pending. */
static int64_t repetitions(Core *core, const Kept *kept)
{
    int64_t span = core->progress.time - kept->time, groups = core->begun - kept->begun;
    core->parts = core->is_equal || groups ? 1 : PARTS;
    int64_t times = (LAST - core->progress.time) / (span ? span : 1);
    if (groups) {
        int64_t end = core->given.total_groups - (core->is_equal ? 0 : WAVES * core->given.slots);
        int64_t left = (end - core->begun) / groups - 1;
        times = left < times ? left : times;
    }
    for (int32_t x = 0; x < core->warps_number && times > 0; x++) {
        if (!core->moved[x])
            continue;
        const Warp *warp = core->warps + x;
        int32_t level = core->level[x];
        int64_t until = warp->trips[level];
        if (!core->given.steps[loop_around(core, warp->step, level)].is_uniform) {
            int32_t first = 0;
            while (!core->moved[first] || !is_beside(core, first, x))
                first++;
            if (core->answers[first] == NONE) {
                int64_t most = (until - warp->passes[level]) / core->moved[x];
                if ((most < times ? most : times) * (core->progress.issued - kept->issued) < WORTH)
                    return 0;
                ask(core, first);
                return UNKNOWN;
            }
            until = core->answers[first];
        }
        int64_t left = (until - warp->passes[level]) / core->moved[x] - 1;
        if (!core->is_equal)
            left = (until - warp->passes[level] - 1) * core->parts / core->moved[x];
        times = left < times ? left : times;
    }
    return times > 0 ? times : 0;
}

static int64_t scaled(const Core *core, int64_t number)
{
    return core->is_equal ? number : llround(core->share * (double)number / (double)core->parts);
}

/* Repeat so many parts of the work since another state without simulation. */
static void skip(Core *core, const Kept *kept, int64_t times)
{
    Progress *progress = &core->progress;
    int64_t issued = scaled(core, times * (progress->issued - kept->issued));
    int64_t gone = core->is_equal ? times * (progress->time - kept->time) : llround(core->rate * (double)issued);
    int64_t groups = times * (core->begun - kept->begun);
    progress->time += gone;
    progress->issued += issued;
    core->opened += gone;
    core->slice += gone;
    core->begun += groups;
    for (int32_t q = 0; q < core->given.subsystems; q++) {
        core->free[q] += gone;
        core->busy[q] += scaled(core, times * (core->busy[q] - kept->busy[q]));
    }
    for (int32_t slot = 0; slot < core->given.slots; slot++)
        core->groups[slot].end += gone;
    for (int32_t x = 0; x < core->warps_number; x++) {
        Warp *warp = core->warps + x;
        warp->complete += gone;
        warp->able += gone;
        warp->number += groups * core->given.warps_per_group;
        warp->rank += core->given.by_age * groups * core->given.warps_per_group;
        for (int32_t k = 0; k < core->results_number; k++)
            warp->results[k] += gone;
        if (!core->moved[x])
            continue;
        int64_t further = (times * core->moved[x] + core->parts / 2) / core->parts;
        *iteration(core, warp, core->level[x]) += further;
        for (int32_t k = 0; k < core->results_number; k++)
            iterations_of(core, warp, k)[core->level[x]] += further;
    }
    for (int32_t q = 0; q < core->given.subsystems; q++)
        refresh(core, q);
}

static double tolerance_now(const Core *core)
{
    double issues = (double)core->progress.made / HASTE;
    return core->tolerance * (issues > 1 ? issues : 1);
}

static double rate_between(const Kept *one, const Kept *other)
{
    return (double)(other->time - one->time) / (double)(other->issued - one->issued);
}

/* Return the mark since which the rate of issues has settled; NULL if it has not. It has if the last batch agrees with
   the rate that had settled before, or if the mean of the last batches is known accurately enough. */
static Kept *settled_since(const Core *core, History *history)
{
    int32_t last = history->marks_count - 1;
    if (last < 1)
        return NULL;
    double rate = rate_between(history->marks + last - 1, history->marks + last);
    if (history->rate > 0 && fabs(rate - history->rate) <= history->deviation)
        return history->marks + last - 1;
    int32_t first = last > 5 ? 1 : 0, number = last - first;
    if (number < 4)
        return NULL;
    double sum = 0, squares = 0;
    for (int32_t k = first; k < last; k++) {
        rate = rate_between(history->marks + k, history->marks + k + 1);
        sum += rate;
        squares += rate * rate;
    }
    double mean = sum / number, variance = (squares - mean * sum) / (number - 1);
    double error = variance > 0 ? 2 * sqrt(variance / number) : 0;
    if (error > tolerance_now(core) * mean)
        return NULL;
    history->rate = mean;
    history->error = fmax(error / mean, core->tolerance);
    history->deviation = variance > 0 ? 2 * sqrt(variance) : 0;
    history->deviation = fmax(history->deviation, core->tolerance * mean);
    return history->marks + first;
}

/* Record the state at the end of a batch; return whether it was the end. */
static bool mark(Core *core, History *history, const uint64_t key[2], int64_t number, int64_t batch)
{
    if (history->batch < batch)
        history->batch = batch;
    if (history->marks_count && number - history->marks[history->marks_count - 1].number < history->batch)
        return false;
    if (history->marks_count == BATCHES + 1) {
        history->marks_count = thinned(history->marks, history->marks_count);
        history->batch *= 2;
        if (number - history->marks[history->marks_count - 1].number < history->batch)
            return false;
    }
    return keep(core, history->marks + history->marks_count++, key, number);
}

/* Skip repetitions of the work since the candidate, if it repeats. */
static int32_t go_on(Core *core, History *history)
{
    Kept *kept = core->candidate;
    int64_t times = repetitions(core, kept), time = core->progress.time;
    if (times == UNKNOWN) {
        core->has_asked = true;
        return ASKS;
    }
    core->candidate = NULL;
    if (core->parts > 1 && core->given.by_age) {
        /* Each warp has its own pace; simulated iterations, unlike skipped ones, make its estimate more accurate. */
        double share = (double)(core->progress.made - kept->made) / (double)(core->progress.issued - kept->issued);
        int64_t most = (int64_t)(share * MOST_OFTEN * core->parts);
        times = times < most ? times : most;
    }
    if (core->has_asked) {
        int64_t doubt = history->doubt ? 2 * history->doubt : DOUBT;
        history->doubt = times ? 0 : doubt;
        if (times == 0)
            history->pause = core->progress.made + doubt;
        core->has_asked = false;
    }
    if (times == 0) {
        /* The iterations in between are not periodic, but those from here on may be. */
        if (core->is_equal)
            keep(core, kept, kept->key, history->number);
        return DONE;
    }
    core->progress.skipped_first = kept->made;
    core->progress.skipped_times = times;
    skip(core, kept, times);
    if (!core->is_equal) {
        core->progress.settled += core->progress.time - time;
        core->progress.tolerance = fmax(core->progress.tolerance, history->error);
    }
    /* Outer loops end later in the program than this one; groups come after all loops. */
    for (History *each = core->histories; each <= history; each++)
        forget(each);
    return core->rows ? SKIPPED : DONE;
}

/* Compare the state with earlier ones at the same loop, and skip repetitions. */
static int32_t compare(Core *core)
{
    bool is_of_groups = core->event == core->given.steps_number;
    int32_t loop = is_of_groups ? core->given.loops_number : core->given.steps[core->event].loop;
    assert(loop >= 0 && loop <= core->given.loops_number);
    History *history = core->histories + loop;
    if (!core->candidate) {
        const Warp *warp = core->warps + core->watched;
        int64_t number = is_of_groups ? core->begun : warp->passes[core->given.steps[core->event].argument];
        if (core->progress.made < history->pause)
            return DONE;
        history->pause = core->progress.made + core->state_size / 8;
        if (number <= history->number)
            forget(history);
        history->number = number;
        uint64_t key[2];
        find_key(key, core);
        for (int32_t k = history->count - 1; k >= 0 && !core->candidate; k--)
            if (history->kept[k].key[0] == key[0] && history->kept[k].key[1] == key[1])
                core->candidate = history->kept + k;
        core->is_equal = core->candidate != NULL;
        if (core->candidate && !find_moves(core, core->candidate, true))
            core->candidate = NULL;
        if (!core->candidate && core->tolerance > 0 && core->progress.made >= ALL &&
            mark(core, history, key, number, is_of_groups ? core->given.window : FEWEST)) {
            core->is_equal = false;
            core->candidate = settled_since(core, history);
            core->rate = history->rate;
            if (core->candidate && !find_moves(core, core->candidate, false))
                core->candidate = NULL;
        }
        if (!core->candidate && history->seen++ % history->stride == 0) {
            if (history->count == KEPT) {
                history->count = thinned(history->kept, KEPT);
                history->stride *= 2;
            }
            if (!keep(core, history->kept + history->count++, key, number))
                history->count--;
        }
    }
    return core->candidate ? go_on(core, history) : DONE;
}

/* }}} */

/* {{{ interface */

int32_t run_core(Core *core, int64_t limit, Row *rows)
{
    int64_t end = core->progress.made + limit;
    core->rows = rows;
    core->rows_number = 0;
    for (;;) {
        if (core->event != NONE) {
            int32_t why = compare(core);
            if (why == ASKS)
                return why;
            core->event = NONE;
            if (why != DONE)
                return why;
        }
        if (core->progress.made >= end)
            return core->progress.time > LAST ? TOO_LONG : LIMIT;
        int64_t time;
        int32_t x = chosen(core, &time);
        if (x >= 0)
            issue(core, x, time);
        else if (core->vacant >= 0)
            begin_group(core, core->vacant);
        else
            return core->progress.finish > LAST ? TOO_LONG : DONE;
    }
}

void answer_core(Core *core, int64_t until)
{
    core->answers[core->asked] = until;
}

const Progress *progress_of(const Core *core)
{
    return &core->progress;
}

static void *room(size_t number, size_t size, bool *is_there)
{
    void *found = calloc(number ? number : 1, size);
    *is_there = *is_there && found;
    return found;
}

static bool has_rooms(Core *core)
{
    const Scenario *given = &core->given;
    size_t warps = (size_t)core->warps_number, deepest = (size_t)given->deepest;
    size_t results = (size_t)core->results_number;
    bool is_there = true;
    core->warps = room(warps, sizeof *core->warps, &is_there);
    core->groups = room((size_t)given->slots, sizeof *core->groups, &is_there);
    core->free = room((size_t)given->subsystems, sizeof *core->free, &is_there);
    core->first = room((size_t)given->subsystems, sizeof *core->first, &is_there);
    core->busy = room((size_t)given->subsystems, sizeof *core->busy, &is_there);
    core->in_line = room((size_t)given->subsystems, sizeof *core->in_line, &is_there);
    core->standing = room((size_t)given->subsystems, sizeof *core->standing, &is_there);
    core->links = room(warps + 2 * (size_t)given->subsystems, sizeof *core->links, &is_there);
    core->stack = room((size_t)given->operations_number, sizeof *core->stack, &is_there);
    core->wanted = room(deepest, sizeof *core->wanted, &is_there);
    core->histories = room((size_t)given->loops_number + 1, sizeof *core->histories, &is_there);
    core->moved = room(warps, sizeof *core->moved, &is_there);
    core->answers = room(warps, sizeof *core->answers, &is_there);
    core->level = room(warps, sizeof *core->level, &is_there);
    core->by_stamp = room(warps, sizeof *core->by_stamp, &is_there);
    core->passes = room(warps * deepest * 2, sizeof *core->passes, &is_there);
    core->results = room(warps * results * (deepest + 1), sizeof *core->results, &is_there);
    core->newest = room(warps * (size_t)given->most_instructions, sizeof *core->newest, &is_there);
    for (int32_t loop = 0; is_there && loop <= given->loops_number; loop++)
        forget(core->histories + loop);
    return is_there;
}

Core *new_core(const Scenario *scenario, int32_t skips, double tolerance)
{
    Core *core = calloc(1, sizeof *core);
    if (!core)
        return NULL;
    core->given = *scenario;
    core->skips = skips;
    core->tolerance = tolerance;
    core->warps_number = scenario->slots * scenario->warps_per_group;
    core->results_number = scenario->most_results;
    core->state_size = (int64_t)core->warps_number * (8 + 2 * scenario->deepest + core->results_number);
    core->current = core->event = NONE;
    if (!has_rooms(core)) {
        free_core(core);
        return NULL;
    }
    core->progress.busy = core->busy;
    for (int32_t x = 0; x < core->warps_number; x++) {
        Warp *warp = core->warps + x;
        warp->slot = x / scenario->warps_per_group;
        warp->passes = core->passes + (int64_t)x * 2 * scenario->deepest;
        warp->trips = warp->passes + scenario->deepest;
        warp->results = core->results + (int64_t)x * core->results_number * (scenario->deepest + 1);
        warp->of = warp->results + core->results_number;
        warp->newest = core->newest + (int64_t)x * scenario->most_instructions;
    }
    for (int32_t own = core->warps_number; own < core->warps_number + 2 * scenario->subsystems; own++)
        core->links[own] = (Link){own, own};
    for (int32_t q = 0; q < scenario->subsystems; q++) {
        core->first[q] = NEVER;
        core->standing[q] = NONE;
    }
    for (int32_t slot = 0; slot < scenario->slots; slot++)
        core->groups[slot].is_vacant = true;
    find_vacant(core);
    return core;
}

void free_core(Core *core)
{
    for (int32_t loop = 0; core->histories && loop <= core->given.loops_number; loop++) {
        for (int32_t k = 0; k < KEPT; k++)
            free(core->histories[loop].kept[k].passes);
        for (int32_t k = 0; k <= BATCHES; k++)
            free(core->histories[loop].marks[k].passes);
    }
    void *rooms[] = {core->warps, core->groups, core->free, core->first, core->busy, core->in_line, core->standing,
                     core->links, core->stack, core->wanted, core->histories, core->moved, core->answers, core->level,
                     core->by_stamp, core->passes, core->results, core->newest, core};
    for (size_t k = 0; k < sizeof rooms / sizeof *rooms; k++)
        free(rooms[k]);
}

/* }}} */
