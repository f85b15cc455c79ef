/* Inputs and outputs of the compiled core. Times are in ticks; -1 stands for no expression or no instruction. */

#define INSTRUCTION 0
#define ENTER 1
#define REPEAT 2
#define END 3

typedef struct {
    int32_t kind;       /* INSTRUCTION, ENTER a loop, REPEAT it, END of the program */
    int32_t argument;   /* an instruction, or the level of a loop (0 is the outermost) */
    int32_t jump;       /* ENTER: next step if there are no iterations; REPEAT: first step of the body */
    int32_t expression; /* INSTRUCTION: condition; ENTER: trip count */
    int32_t depth;      /* number of loops around the step; REPEAT is inside its loop */
    int32_t furthest;   /* REPEAT: iterations that an edge goes back, at most */
    int32_t loop;       /* REPEAT: number of the loop, in the order in which loops end */
    int32_t is_uniform; /* REPEAT: the loop body does not depend on the iteration number */
} Step;

typedef struct {
    int64_t issue;      /* λ */
    int64_t completion; /* Λ */
    int32_t subsystem;  /* number among the subsystems of its program */
    int32_t number;     /* number among the instructions of its program */
    int32_t of_program; /* number of instructions of its program */
    int32_t is_barrier;
    int32_t depth;      /* number of loops around it */
    int32_t step;       /* its step */
    int32_t edges;      /* first edge to it; the edges end at the first one of the next instruction */
    int32_t results;    /* first of its results stored per warp */
    int32_t kept;       /* number of its results stored per warp */
    int32_t is_searched; /* some edge finds a result by its iterations */
} Instruction;

typedef struct {
    int32_t source;
    int32_t condition;
    int32_t back;   /* age of the result, 0 for the newest; -1: find it by its iterations */
    int32_t level;  /* level of a loop */
    int32_t lag;    /* iterations that this loop must have completed, or there is no such result */
    int32_t passes; /* first of the expressions for the iterations of the result, one per loop */
} Edge;

/* An expression is a sequence of stack operations; Scenario.expressions has the index of the first one. */
typedef struct {
    int32_t operation; /* see expression_code.py */
    int32_t level;     /* level of a loop */
    int64_t number;    /* constant, or addend to the iteration of that loop */
} Operation;

typedef struct {
    int64_t total_groups;
    double issues;   /* mean number per group; 0 if unknown */
    int64_t gap;     /* minimum time between two issues, from the issue limit */
    int64_t goes_on; /* time for which the warp that issued last has priority */
    int32_t by_age;  /* after it: 1 the oldest warp has priority, -1 the youngest, 0 the one that has waited longest */
    int32_t warps_per_group;
    int32_t slots;      /* resident groups */
    int32_t window;     /* states are compared at the start of every window-th group: a multiple of the period of warp
                           kinds, and at least the number of resident groups */
    int32_t subsystems;
    int32_t deepest;    /* maximum number of loops around a step, at least 1 */
    int32_t steps_number;
    int32_t loops_number;
    int32_t operations_number;
    int32_t kinds_number;
    int32_t most_subsystems;   /* maximum per program */
    int32_t most_instructions; /* maximum per program */
    int32_t most_results;      /* maximum number of results stored per warp */
    const Step *steps;
    const int32_t *around;             /* steps_number x deepest: the REPEAT of each loop around a step */
    const Instruction *instructions;   /* and a sentinel, where edges end */
    const Edge *edges;
    const int32_t *passes;             /* expressions */
    const int32_t *expressions;        /* first operation of each expression, and the end of the last one */
    const Operation *operations;
    const int32_t *kinds;              /* first step of each warp of the first groups; later groups repeat them */
    const int32_t *maps;               /* kinds_number x most_subsystems: program's subsystem -> core's subsystem */
} Scenario;

/* A row of the trace. */
typedef struct {
    int64_t warp;
    int64_t place;    /* the instruction */
    int64_t time;     /* time of issue */
    int64_t able;     /* time from which the warp could issue if its operands were complete */
    int64_t reason;   /* why not before that: AT_START, IN_ORDER, AT_BARRIER */
    int64_t complete; /* completion time of the last operand */
    int64_t source;   /* instruction that produced that operand; -1 for none */
    int64_t vacated;  /* time from which the subsystem was free */
    int64_t opened;   /* time from which the issue limit allowed the issue */
} Row;

#define AT_START 0
#define IN_ORDER 1
#define AT_BARRIER 2

/* Why a core stopped. */
#define DONE 0
#define LIMIT 1     /* it has issued the requested number of instructions */
#define ASKS 2      /* it asks up to which iteration a loop is periodic (Progress.asked_...); call answer_core */
#define SKIPPED 3   /* a repetition was skipped while tracing */
#define TOO_LONG 4  /* times overflow */

typedef struct {
    int64_t time;     /* time of the latest event */
    int64_t finish;   /* time at which everything issued is complete */
    int64_t issued;   /* instructions issued by the warps, including skipped ones */
    int64_t made;     /* instructions simulated, without skipped ones */
    int64_t settled;  /* ticks that were extrapolated at a settled rate */
    double tolerance; /* largest relative uncertainty of such a rate */
    int64_t skipped_first; /* SKIPPED: index among simulated issues of the first one of the period, which ends here */
    int64_t skipped_times; /* SKIPPED: number of repetitions skipped */
    int32_t asked_loop;    /* ASKS: the loop's REPEAT */
    int64_t asked_span;    /* iterations between equal states */
    int64_t asked_first;   /* first iteration of the periodic part */
    int64_t asked_trips;   /* trip count of the loop */
    int64_t asked_oldest;  /* first iteration of which a result may still be outstanding */
    const int64_t *asked_outer; /* current iterations of the loops around it */
    const int64_t *busy;   /* time for which each subsystem was occupied */
} Progress;

typedef struct Core Core;

/* Create a core for a scenario, whose arrays must outlive it. If *skips*, the core detects equal states and skips
   repetitions. If there are none, it continues at the mean rate once that has settled to within *tolerance* (0 for
   never); the tolerance grows if this takes long. Return NULL if out of memory. */
Core *new_core(const Scenario *scenario, int32_t skips, double tolerance);
void free_core(Core *core);
/* Issue up to *limit* instructions and write a row for each to *rows* unless it is NULL; return why it stopped. */
int32_t run_core(Core *core, int64_t limit, Row *rows);
/* Set the iteration before which all are periodic. */
void answer_core(Core *core, int64_t until);
const Progress *progress_of(const Core *core);
