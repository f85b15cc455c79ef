/* What the compiled core is given and what it tells. Times are ticks; -1 stands for no expression, no instruction. */

#define INSTRUCTION 0
#define ENTER 1
#define REPEAT 2
#define END 3

typedef struct {
    int32_t kind;       /* INSTRUCTION, ENTER a loop, REPEAT it, END of the program */
    int32_t argument;   /* an instruction, or the level of a loop: 0 is the outermost one */
    int32_t jump;       /* ENTER: where to go on without any iteration; REPEAT: where the body begins */
    int32_t expression; /* INSTRUCTION: its condition; ENTER: the number of iterations */
    int32_t depth;      /* the loops around it; the body's end is inside its loop */
    int32_t furthest;   /* REPEAT: by how many of its iterations an edge goes back at most */
    int32_t loop;       /* REPEAT: its number, by where loops end */
    int32_t is_uniform; /* REPEAT: nothing in the loop depends on the number of its iteration */
} Step;

typedef struct {
    int64_t issue;      /* λ */
    int64_t completion; /* Λ */
    int32_t subsystem;  /* among those of its program */
    int32_t number;     /* among the instructions of its program */
    int32_t of_program; /* how many these are */
    int32_t is_barrier;
    int32_t depth;      /* the loops around it */
    int32_t step;       /* where it stands */
    int32_t edges;      /* the first edge to it; they end where those of the next instruction begin */
    int32_t results;    /* the first of its results that are kept of a warp */
    int32_t kept;       /* how many these are */
    int32_t is_searched; /* some edge looks for a result by the iterations that it is of */
} Instruction;

typedef struct {
    int32_t source;
    int32_t condition;
    int32_t back;   /* the result is this many before the newest one; -1: look for the iterations that it is of */
    int32_t level;  /* of the loop that has had... */
    int32_t lag;    /* ...at least so many iterations before, or there is no such result */
    int32_t passes; /* the first of the expressions of the iterations that the result is of, one per loop */
} Edge;

/* An expression is a run of operations on a stack; the first of them is in Scenario.expressions. */
typedef struct {
    int32_t operation; /* see expressions.py */
    int32_t level;     /* of a loop */
    int64_t number;    /* a constant, or what is added to the iteration of that loop */
} Operation;

typedef struct {
    int64_t total_groups;
    double issues;   /* of a group, on average; 0 where that is not known */
    int64_t gap;     /* between two issues at least, by the issue limit */
    int64_t goes_on; /* for how long the warp that issued last is asked first */
    int32_t by_age;  /* 1: then the oldest warp is asked first, -1: the youngest, 0: the one that has waited longest */
    int32_t warps_per_group;
    int32_t slots;      /* groups at once */
    int32_t window;     /* at the start of every so many groups states are compared: they have all kinds of warps as often
                           as all groups do, and are at least as many as reside at once */
    int32_t subsystems;
    int32_t deepest;    /* the most loops around a step, at least 1 */
    int32_t steps_number;
    int32_t loops_number;
    int32_t operations_number;
    int32_t kinds_number;
    int32_t most_subsystems;   /* of a program */
    int32_t most_instructions; /* of a program */
    int32_t most_results;      /* that are kept of a warp */
    const Step *steps;
    const int32_t *around;             /* steps_number x deepest: the REPEAT of each loop around a step */
    const Instruction *instructions;   /* and one more, where edges end */
    const Edge *edges;
    const int32_t *passes;             /* expressions */
    const int32_t *expressions;        /* where each begins among the operations, and where the last one ends */
    const Operation *operations;
    const int32_t *kinds;              /* the first step of each warp of the first groups; those of the next are alike */
    const int32_t *maps;               /* kinds_number x most_subsystems: those of the core, for those of the program */
} Scenario;

/* A row of the trace. */
typedef struct {
    int64_t warp;
    int64_t place;    /* the instruction */
    int64_t time;
    int64_t able;     /* since when the warp could issue, but for results */
    int64_t reason;   /* since what: AT_START, IN_ORDER, AT_BARRIER */
    int64_t complete; /* when the last result that it waits for is */
    int64_t source;   /* of that result; -1 for none */
    int64_t vacated;  /* when the subsystem was free */
    int64_t opened;   /* when the issue limit allowed the issue */
} Row;

#define AT_START 0
#define IN_ORDER 1
#define AT_BARRIER 2

/* Why a core stopped. */
#define DONE 0
#define LIMIT 1     /* it has issued as much as it was to */
#define ASKS 2      /* for how many iterations do passes go on alike? The question is in Core, answer_core goes on */
#define SKIPPED 3   /* what repeats was skipped, and a trace is made */
#define TOO_LONG 4  /* times do not fit */

typedef struct {
    int64_t time;     /* of what was done last */
    int64_t finish;   /* when all that was issued is complete */
    int64_t issued;   /* by the warps, what was skipped included */
    int64_t made;     /* without it */
    int64_t settled;  /* ticks of the time that were not simulated, since the rate had settled */
    double tolerance; /* to within which it had, at most */
    int64_t skipped_first; /* SKIPPED: the first issue of what repeats, which ends here, among those that were made */
    int64_t skipped_times; /* and how often it was skipped */
    int32_t asked_loop;    /* ASKS: the loop's REPEAT */
    int64_t asked_span;    /* passes that lie between equal states */
    int64_t asked_first;   /* the first pass to go on alike */
    int64_t asked_trips;
    int64_t asked_oldest;  /* the first pass of which a result may still be waited for */
    const int64_t *asked_outer; /* the passes of the loops around it */
    const int64_t *busy;   /* for how long each subsystem was taken */
} Progress;

typedef struct Core Core;

/* Begin with a scenario, which must stay where it is. Equal states are looked for if *skips*; where they are not found,
   the core goes on at the mean rate once that has settled to within *tolerance* (0 for never), and where it takes long
   to settle, to within more. NULL: no memory. */
Core *new_core(const Scenario *scenario, int32_t skips, double tolerance);
void free_core(Core *core);
/* Issue up to *limit* instructions, and write a row for each to *rows* unless it is NULL; return why it stopped. */
int32_t run_core(Core *core, int64_t limit, Row *rows);
/* Tell the pass before which all go on alike. */
void answer_core(Core *core, int64_t until);
const Progress *progress_of(const Core *core);
