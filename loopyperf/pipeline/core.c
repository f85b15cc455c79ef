/* A core whose warps issue in the order of their programs (a scoreboard), in whole ticks. The rules, docs/errata.md:

   1. An instruction issues at the first moment when its predecessors are complete (wait_for_results), its subsystem is
      free and the issue limit allows; where several warps can, the scheduler says which (chosen).
   2. It is complete Λ later (issue).
   3. A barrier releases a group Λ after the last of its warps that have anything left has issued it (settle).
   4. A group that is complete is replaced by a waiting one (begin_group).

   Each warp has one instruction to issue next, and once its predecessors have issued it is known when it is ready. So
   there are no events but issues, and groups that begin.

   What repeats is done once. At each iteration of each loop of one warp, and at each start of the first group, the
   state of the core is compared with earlier ones, in ticks from now (see "steady states" below).

   core_in_python.py does the same, where this could not be compiled. */

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

#define NEVER INT64_MAX
#define LAST (INT64_C(1) << 61) /* of a moment: a sum of a moment and some latencies is to fit too */
#define NONE (-1)

enum { CONSTANT, PASS, ADD, MULTIPLY, FLOOR, REMAINDER, MINIMUM, MAXIMUM,
       EQUAL, UNEQUAL, LESS, AT_MOST, AND, OR, NOT, CHOOSE };

typedef enum { OUTSIDE, WAITING, READY, HELD } State;

typedef struct {
    State state;       /* no next instruction, its results are awaited, it is ready for its turn, a barrier holds it */
    int32_t slot;      /* the place of its group */
    int32_t step;      /* of its next instruction */
    int32_t place;     /* its next instruction */
    int32_t subsystem; /* which executes that */
    int32_t reason, source;
    const int32_t *map; /* the subsystems of its program on the core */
    int64_t number;    /* as they begin, from 0 */
    int64_t stamp;     /* when it last did something, in the order in which warps did */
    int64_t rank;      /* the lower, the sooner its turn */
    int64_t complete;  /* when what it waits for is */
    int64_t able;      /* from when on it could issue but for results */
    int64_t *passes;   /* iterations of the loops around it */
    int64_t *trips;    /* how many they have */
    int64_t *results;  /* when results are complete: of each instruction the latest ones, in a ring */
    int64_t *of;       /* the passes that they are of, for instructions whose results are searched */
    int32_t *newest;   /* where in its ring the newest result of each instruction is */
} Warp;

typedef struct {
    int64_t end;       /* when all that was issued is complete */
    int64_t release;   /* Λ of the barrier that holds warps */
    int32_t unfinished, held; /* warps */
    bool is_vacant;    /* from its end on */
} Group;

typedef struct { int32_t next, previous; } Link;

/* What a state is compared with: one of before. */
typedef struct {
    uint64_t key[2];
    int64_t number, time, issued, made, begun;
    int32_t active;    /* warps */
    int64_t *passes;   /* of all warps */
    int64_t *busy;     /* of all subsystems */
} Kept;

#define KEPT 256       /* states at each loop */
#define BATCHES 8      /* whose rates are compared, at most */
#define FEWEST 2       /* iterations in a batch */
#define PATIENCE 20000 /* issues after which another warp is watched */
#define ALL 100000     /* issues that are made before any is left out at a settled rate */
#define WORTH 5000     /* issues that take about as long as a question: fewer are not asked for to be skipped */
#define DOUBT 16       /* issues after which is asked again where an answer was no use, then twice as many, and so on */
#define HASTE 100000   /* issues after which the tolerance grows with their number */
#define WAVES 1        /* groups that begin before the rate of groups is settled, as many as reside at once; and that are
                          left after what is skipped */
#define STILL 2        /* where older or younger warps are preferred: warps may stay where they are, if so many times as
                          many go on */
#define MOST_OFTEN 8   /* where older or younger warps are preferred: batches go on at one rate so many times */
#define PARTS 64       /* of what was done at a settled rate are done again: not always all */

/* What is known of the states at one loop, or at the start of groups. */
typedef struct {
    int64_t number;    /* of the last state that was seen: the iteration, or the groups that had begun */
    int64_t seen;      /* states since the loop was entered */
    int64_t stride;    /* every so many are kept */
    int64_t pause;     /* no state is looked at before so many issues were made */
    int64_t doubt;     /* the pause after the last question whose answer was no use; 0 after one that was */
    int32_t count;
    Kept kept[KEPT];
    int64_t batch;     /* iterations or groups between marks, at least */
    double rate;       /* ticks from one issue to the next, once that has settled; 0 before */
    double deviation;  /* of the rate of a batch from that */
    double error;      /* of the rate, as a share of it */
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
    int64_t *free;     /* from when on each subsystem is */
    int64_t *first;    /* when the next issue there can be, but for the issue limit; NEVER where no warp is in line */
    int32_t *in_line;  /* the subsystems in which warps are in line... */
    int32_t *standing; /* ...and where each one stands among these; NONE */
    int32_t in_line_number;
    int64_t *busy;     /* for how long it was not free */
    int64_t *passes, *results; /* of all warps */
    int32_t *newest;
    Link *links;       /* of warps in queues, then where each queue closes in itself: two for each subsystem */
    int64_t *stack;
    int64_t *wanted;
    int64_t opened;    /* from when on the issue limit allows an issue */
    int64_t begun;     /* groups */
    int64_t counter;   /* of stamps */
    int64_t slice;     /* since when the current warp is asked first */
    int32_t current;
    int32_t vacant;    /* the slot that is vacant first; NONE */
    Row *rows;
    int32_t rows_number;
    int32_t watched;   /* the warp at whose iterations states are compared */
    int64_t watched_at; /* issues made when it last began one */
    int32_t event;     /* what a state is to be compared for: a loop's REPEAT, or the number of steps for groups; NONE */
    History *histories;
    Kept *candidate;   /* a state since which everything repeats, perhaps; NULL */
    bool is_equal;     /* the present one equals it; else only the rate is the same since then */
    int64_t *moved;    /* by how many iterations each warp is further, since that */
    double rate;       /* that has settled since then */
    int64_t parts;     /* into which what was done since then is divided: 1 where it is done again as a whole */
    double share;      /* of what was issued since then that is skipped each time: about 1 */
    int32_t *level;    /* of which loop around it */
    int64_t *answers;  /* the pass before which all go on alike, for each warp; NONE where it is not known */
    int32_t asked;     /* the warp whose question stands */
    bool has_asked;    /* about the candidate */
    int32_t *by_stamp;
    int64_t state_size; /* about how many numbers a state is */
};

/* {{{ expressions of the passes of loops */

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

static int64_t evaluated(const Core *core, const Warp *warp, const Operation *operation, const Operation *end)
{
    int64_t *top = core->stack - 1;
    for (; operation < end; operation++) {
        switch (operation->operation) {
        case CONSTANT: *++top = operation->number; break;
        case PASS: *++top = warp->passes[operation->level] + operation->number; break;
        case NOT: *top = !*top; break;
        case CHOOSE: top -= 2; *top = top[0] ? top[1] : top[2]; break;
        default: top--; *top = applied(operation->operation, top[0], top[1]);
        }
    }
    return *top;
}

/* Return the value of an expression where the warp is. Nearly all are a constant, or a pass plus a constant. */
static inline int64_t value(const Core *core, const Warp *warp, int32_t expression)
{
    const Operation *first = core->given.operations + core->given.expressions[expression];
    const Operation *end = core->given.operations + core->given.expressions[expression + 1];
    if (end == first + 1)
        return (first->operation == PASS ? warp->passes[first->level] : 0) + first->number;
    return evaluated(core, warp, first, end);
}

/* }}} */

/* {{{ rule 1: when an instruction can issue */

/* Return when the result is complete that the warp waits for by an edge; 0 where there is none or it is by *since*. */
static int64_t complete_at(Core *core, const Warp *warp, const Edge *edge, int64_t since)
{
    const Scenario *given = &core->given;
    const Instruction *source = given->instructions + edge->source;
    int32_t begin = source->results, size = source->kept, at = warp->newest[source->number];
    if (edge->back >= 0) {
        if (edge->lag && warp->passes[edge->level] < edge->lag)
            return 0;
        if (edge->back >= size)
            return 0;
        at -= edge->back;
        return warp->results[begin + (at < 0 ? at + size : at)];
    }
    for (int32_t level = 0; level < source->depth; level++)
        core->wanted[level] = value(core, warp, given->passes[edge->passes + level]);
    for (int32_t k = 0; k < size; k++) {
        /* Results of one instruction are complete one after the other; those of an earlier group are long. */
        if (warp->results[begin + at] <= since)
            return 0;
        const int64_t *of = warp->of + (int64_t)(begin + at) * given->deepest;
        if (memcmp(of, core->wanted, sizeof(int64_t) * (size_t)source->depth) == 0)
            return warp->results[begin + at];
        at = at > 0 ? at - 1 : size - 1;
    }
    return 0;
}

/* Set when the predecessors of the warp's next instruction are complete; without them it could issue at *since*. */
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
        /* Most results are long complete: neither conditions nor passes matter for them. */
        if (warp->results[source->results + warp->newest[source->number]] <= warp->complete)
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

/* Note that warp x begins an iteration of the loop that ends in *step*: states are compared at those of one warp. */
static inline void look(Core *core, int32_t x, int32_t step)
{
    if (x != core->watched) {
        if (core->progress.made < core->watched_at + PATIENCE)
            return;
        core->watched = x; /* the other one has not come by for long */
    }
    core->watched_at = core->progress.made;
    core->event = step;
}

/* Lead the warp from *step* on to the next instruction that it executes; return whether there is one. */
static inline bool to_next(Core *core, int32_t x, int32_t step)
{
    Warp *warp = core->warps + x;
    for (;;) {
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
            warp->passes[at->argument] = 0;
            warp->trips[at->argument] = value(core, warp, at->expression);
            step = warp->trips[at->argument] > 0 ? step + 1 : at->jump;
            break;
        case REPEAT:
            if (++warp->passes[at->argument] < warp->trips[at->argument]) {
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

/* {{{ queues: of each subsystem, the warps that wait for results, by when these are complete, and those that are ready,
   by their turn

   A warp comes in from the end whose key is nearer to its own: what becomes ready mostly does so after all others. */

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

/* Find when the next issue in a subsystem can be. */
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

/* {{{ who issues when */

/* Let the warps of a subsystem line up that have become ready. */
static inline void line_up_ready(Core *core, int32_t q, int64_t time)
{
    int32_t x;
    while ((x = first_of(core, q, WAITING)) >= 0 && core->warps[x].complete <= time) {
        unlinked(core, x);
        line_up(core, x, READY);
    }
}

/* Return the warp whose turn it is at *time*, NONE where none can issue; *later* is when the next one can then. */
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

/* Return whether the warp that issued last can go on at *time*. */
static inline bool can_go_on(const Core *core, int64_t time)
{
    const Warp *warp = core->warps + core->current;
    return (warp->state == READY || (warp->state == WAITING && warp->complete <= time)) &&
           core->free[warp->subsystem] <= time;
}

/* Return the warp that issues next; *time* becomes when. NONE: a vacant slot is to be filled before, or all is done. */
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

/* {{{ rules 2 to 4: what an issue changes, barriers, groups */

static inline void stamp(Core *core, Warp *warp)
{
    warp->stamp = core->counter++;
}

/* Lead the warp on to its next instruction, which it could issue at *since* but for results. */
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

/* Release a group that a barrier holds as a whole, and note when one that has issued everything is complete. */
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

/* Begin the next group in a vacant slot, if any is waiting. */
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
    warp->results[done->results + at] = complete;
    if (done->is_searched)
        memcpy(warp->of + (int64_t)(done->results + at) * core->given.deepest, warp->passes,
               sizeof(int64_t) * (size_t)done->depth);
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

   A state decides how the core goes on; all times in it are ticks from now, and passes are those since another state.
   Where two states are equal but for that each warp is some iterations further in one loop around it, or groups
   further, what was done in between is done again, for as long as these iterations are alike or groups are left. States
   are compared by 128 bits that all of a state goes into. Of the states at each loop KEPT are kept, and every second one
   of these is dropped when there are more, so that a period of any length is found.

   Where nothing repeats, and the caller allows it, the rate at which iterations (or groups) follow each other is watched
   in four batches one after the other; once these are equal to within the tolerance, the core goes on at that rate. */

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

static void mix_result(uint64_t key[2], const Core *core, const Warp *warp, const Instruction *source, int32_t at)
{
    const int64_t *of = warp->of + (int64_t)at * core->given.deepest;
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
            int64_t late = from_now(core, warp->results[source->results + at]);
            if (late == 0)
                break;
            mix(key, source->results + k);
            mix(key, late);
            if (source->is_searched)
                mix_result(key, core, warp, source, source->results + at);
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

/* Take the warps into the key in the order in which they last did something. */
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
    /* A warp that goes on for ever while it can has no slice of time that ends. */
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

/* Drop every second one. */
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

/* Return whether, where only the rate is the same, all warps that are on their way have moved on in loops (but for a few,
   where older or younger ones are preferred), and none has begun another iteration of a loop around the watched one's.
   Let those in its loop go on together, unless older or younger ones are preferred: that some are a little ahead or
   behind is chance then. */
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

/* Find by how many iterations each warp has moved since another state, and in which loop; return whether that is so.
   Unless it *is_equal*, loops within that one count for nothing. */
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

/* Ask for the pass before which all go on alike in the loop of warp x, and of others in the same one. */
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
                if (warp->results[source->results + k] > core->progress.time) {
                    int64_t of = warp->of[(int64_t)(source->results + k) * core->given.deepest + level] - core->moved[y];
                    oldest = of < oldest ? of : oldest;
                }
    }
    progress->asked_oldest = oldest < progress->asked_first ? oldest : progress->asked_first;
    core->asked = x;
}

#define UNKNOWN (-1)

/* Return how many parts of what was done since another state are surely done again; UNKNOWN once something is asked. */
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

/* Do so many parts of what was done since another state once more. */
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
        warp->passes[core->level[x]] += further;
        for (int32_t k = 0; k < core->results_number; k++)
            warp->of[(int64_t)k * core->given.deepest + core->level[x]] += further;
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

/* Return the mark since which issues follow each other at a settled rate; NULL where there is none: the last batch is
   as likely as not to have the rate that had settled before, or the mean of the last batches is known well enough. */
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

/* Note the state once a batch is over; return whether it is. */
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

/* Skip what repeats since the candidate, if it does. */
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
        /* Each warp has a pace of its own, which more of them tell better, but not those that were skipped. */
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
        /* The iterations in between are not alike, those from here on may be. */
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
    /* Loops around end later in the program than this one; groups come after all of them. */
    for (History *each = core->histories; each <= history; each++)
        forget(each);
    return core->rows ? SKIPPED : DONE;
}

/* Compare the state with those at the same loop before, and skip what repeats. */
static int32_t compare(Core *core)
{
    bool is_of_groups = core->event == core->given.steps_number;
    int32_t loop = is_of_groups ? core->given.loops_number : core->given.steps[core->event].loop;
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

/* {{{ what is called */

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
