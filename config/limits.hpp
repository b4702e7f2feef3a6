// config/limits.hpp: every bound of a queue, a retry, a wait or a size, with its unit and its reason.
#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace ebb::limits {

// --- the model file
inline constexpr std::uint64_t gguf_tensors_max = 1u << 20;        // far above any model; a corrupt count must not allocate
inline constexpr std::uint64_t gguf_keys_max = 1u << 20;           // likewise
inline constexpr std::uint32_t tensor_dimensions_max = 4;          // the format's own limit
inline constexpr std::uint32_t shards_max = 4096;                  // split.count of published models is below 100

// --- the store
inline constexpr std::uint64_t store_chunk_bytes = 16u << 20;      // read by one thread at a time: 16 of them end within milliseconds of each other
inline constexpr unsigned store_threads_max = 16;                  // more do not read faster: 65 ms a GiB, measured

// --- a synthetic model
inline constexpr std::uint32_t synthetic_layers_max = 4096;    // its tensors stay far below gguf_tensors_max
inline constexpr std::uint32_t synthetic_experts_max = 4096;   // a layer; published models have at most 512

// --- a window
inline constexpr std::uint32_t window_rows_max = 512;    // rows of all sessions in one pass; scratch is allocated for this many
inline constexpr std::uint32_t prompt_chunk_rows = 64;   // rows of one prompt in one window, so that other sessions' tokens keep coming
inline constexpr std::uint32_t prompt_chunk_rows_gpu = 512;         // likewise on GPUs while no other session decodes: weights are read once for all rows
inline constexpr std::uint32_t prompt_chunk_rows_gpu_shared = 128;  // and while one does: such a window takes some 30 ms, which is its token's delay
static_assert(prompt_chunk_rows_gpu <= window_rows_max);
inline constexpr std::uint32_t miss_rows_max = 8;        // of a window whose misses the CPU computes in one go; a GPU copies those of larger ones
inline constexpr std::uint32_t sessions_max = 64;        // upper bound of `parallel`
inline constexpr std::uint32_t repeat_windows_max = 64;  // windows a card alone runs of its own accord before it asks again

// --- a request
inline constexpr std::size_t message_bytes_max = 16u << 20;  // a frame on the bus: a prompt of a million tokens as text fits
inline constexpr std::uint32_t stop_strings_max = 16;        // as in the OpenAI-style API, with room
inline constexpr std::size_t stop_bytes_max = 1024;          // of one stop string: it bounds the text held back while streaming
inline constexpr std::uint32_t in_flight_max = 1024;         // requests the gateway has open; beyond it answers busy
inline constexpr std::uint32_t sessions_open_max = 512;  // of those, generate requests: the others keep room to lend and to ask
inline constexpr std::uint32_t sessions_of_client_max = 256;  // of those, one client's: another always gets a turn
inline constexpr std::uint32_t replies_remembered = 1024;    // ids whose answer is given again, not done again
inline constexpr std::uint32_t prompt_ids_max = 1u << 20;    // tokens of a prompt given as ids; above any model's context
inline constexpr std::uint32_t chat_messages_max = 1u << 15; // of a conversation; a template takes some hundred steps for each
inline constexpr std::uint32_t chat_role_bytes_max = 64;     // of a role or a name: words, not texts
inline constexpr std::uint32_t logprobs_max = 20;            // likeliest tokens shown beside each; as in the OpenAI-style API
inline constexpr std::uint32_t tokenize_bytes_max = 512u << 10;  // a token takes a byte or more: both lists of the answer stay below message_values_max
inline constexpr std::size_t detokenized_bytes_max = 5u << 20;   // the answer's text; thrice its bytes, should all of it need repair, fit into a frame
static_assert(3 * detokenized_bytes_max < message_bytes_max);
inline constexpr std::size_t message_values_max = std::size_t{1} << 21;  // of a frame: a tree costs some 50 times its bytes
inline constexpr std::size_t message_depth_max = 4;                      // the deepest message is map > array > map
static_assert(2 * std::size_t{tokenize_bytes_max} + 64 < message_values_max);
inline constexpr std::size_t quoted_bytes_max = 80;          // of outside text in an error: published names are below 64

// --- a chat template, which comes from a stranger's file. All of them used up, rendering ends within two seconds (measured).
inline constexpr std::size_t chat_template_bytes_max = 1u << 20;  // published ones stay below 32 KiB
inline constexpr std::size_t chat_syntax_depth_max = 200;         // of brackets, operators and blocks; bounds the stack of what walks the tree
inline constexpr std::size_t chat_depth_max = 400;                // of expressions under evaluation, through macros
inline constexpr std::size_t chat_calls_max = 32;                 // of macros in one another; published ones recurse through a JSON schema
inline constexpr std::size_t chat_value_depth_max = 64;           // of lists and mappings in one another
inline constexpr std::size_t chat_steps_max = 4u << 20;           // 40 000 messages of a hundred steps each
inline constexpr std::size_t chat_output_bytes_max = 2 * message_bytes_max;  // the largest message and what a template adds to it
inline constexpr std::size_t chat_bytes_made_max = 256u << 20;    // all texts and lists on the way: a template copies a message a few times
inline constexpr std::size_t chat_range_max = 1u << 16;           // of a range; as many as Jinja's sandbox allows, with room
inline constexpr std::size_t chat_width_max = 256;                // of an indent

// --- figures since the start
inline constexpr std::array<double, 10> gap_bounds_ms{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000};  // between two tokens; 20 to 50 is what a reader no longer sees

// --- leases
inline constexpr std::uint32_t leases_max = 256;                  // in all; a sidecar holds one a job
inline constexpr std::uint32_t lease_owner_bytes_max = 128;       // for people, in lists and logs
inline constexpr std::uint32_t lease_ttl_s_default = 300;         // an image takes seconds to minutes; a longer job renews
inline constexpr std::uint32_t lease_ttl_s_max = 7 * 24 * 3600;   // a week of training; beyond it somebody has forgotten it
inline constexpr std::uint32_t lease_wait_s_max = 3600;
inline constexpr std::uint32_t lease_waiting_max = 64;            // acquires that wait for room; beyond it they are told at once
inline constexpr std::uint32_t pid_max = 1u << 22;                // the kernel's own limit
inline constexpr std::chrono::milliseconds ledger_tick{1000};     // looks for ended leases and holders, and for memory let go
inline constexpr std::uint32_t context_mib_warned = 640;          // a CUDA context takes 305 to 527 MiB and fails at 80: less is no use

// --- the profile of expert heat
inline constexpr std::chrono::minutes profile_interval{10};        // what a crash forgets; the ranking of a day changes less than that
inline constexpr std::size_t profile_bytes_max = message_bytes_max;  // 5 bytes an expert: a model of 100 layers of 512 takes 256 KiB

// --- giving way unasked. MiB and times are those of a desktop: a picture takes 2 to 12 GiB within seconds and minutes long.
inline constexpr std::chrono::milliseconds watch_interval{250};  // between readings: a neighbour that allocates takes longer than that
inline constexpr std::uint32_t yield_readings = 2;               // below the mark one after the other: one alone is a buffer that comes and goes
inline constexpr double yield_step_mib = 2048;                   // at a time, either way: 2 ms of unmapping, 100 ms of filling
inline constexpr double yield_margin_mib = 512;                  // above the mark before a cache grows: more than a CUDA context
inline constexpr double yield_mark_mib_min = 256;                // with a reserve of 0: free memory never falls below that, however hard the pressure
inline constexpr std::chrono::seconds yield_calm_min{5};         // so long above it at first: a program that loads a model pauses for less
inline constexpr std::chrono::seconds yield_calm_max{600};       // and at most: the neighbour may have ended for good
inline constexpr std::chrono::seconds yield_relapse{60};         // pushed down again within it: the memory was not free, only unused

// --- GPUs at the start
inline constexpr std::chrono::seconds free_vram_wait{60};            // until a neighbour has let go of enough: a picture takes less; then the start refuses
inline constexpr std::chrono::milliseconds free_vram_interval{500};  // between two looks meanwhile

// --- waits for a GPU. Each ends, then the card is lost and the process lives; what the GPU may still use is left to the end of the process.
inline constexpr std::chrono::milliseconds doorbell_timeout{20'000};  // of a GPU for the CPU: the slowest CPU takes a second; a spin that outlives its process would take the GPU
inline constexpr std::chrono::seconds gpu_window_timeout{30};         // without a sign from it; longer than the doorbell's own, which ends first and says more
inline constexpr std::chrono::milliseconds gpu_copy_timeout{20'000};  // for copies and measurements, which take milliseconds, behind at most a window of another card
inline constexpr std::chrono::milliseconds gpu_spin{2};    // a waiting thread looks again at once so long: a layer's wait is shorter, and sleep would double it
inline constexpr std::chrono::microseconds gpu_nap{50};    // and then sleeps between looks: a fortieth of what it has waited already
static_assert(gpu_window_timeout > doorbell_timeout);

// --- graphs of a stage. Both bounds leave most of a card's reserve of 700 MiB to others, the desktop first.
inline constexpr std::size_t graphs_max = 32;                      // batch sizes and lengths in use are fewer
inline constexpr std::uint64_t graphs_bytes_max = 64u << 20;       // some hundred KiB to 2 MiB each, as measured by the free figure

// --- the sockets
inline constexpr int send_high_water = 1000;   // replies ZeroMQ holds for one client; beyond it they wait in our own backlog
inline constexpr int receive_high_water = 64;  // frames of one client read ahead: 1 GiB of the largest ones
inline constexpr std::size_t frames_waiting_max = 64;  // handed to the gateway and not looked at yet: 1 GiB of the largest ones
inline constexpr std::chrono::milliseconds room_interval{1};  // the gateway does not say when it has room again
inline constexpr int frames_per_turn = 256;    // read before the thread looks at the replies again
inline constexpr std::size_t backlog_max = 1u << 14;        // unsent replies to one client; one that reads nothing gets no more
inline constexpr std::size_t backlog_total_max = 1u << 17;  // unsent replies to all clients together
inline constexpr std::chrono::milliseconds resend_interval{2};         // ZeroMQ does not say when a full client has room again
inline constexpr std::chrono::milliseconds stop_linger{500};           // for replies on their way when the daemon stops
inline constexpr std::chrono::milliseconds reconnect_interval{86'400'000};  // a client never connects again by itself: long after it gave up
inline constexpr std::chrono::milliseconds heartbeat_interval{5'000};  // on tcp, where a peer may vanish without a word
inline constexpr std::chrono::milliseconds heartbeat_timeout{30'000};

// --- HTTP. A connection at rest costs a descriptor and a few KiB, a request under way a thread.
inline constexpr std::size_t http_connections_max = 2048;     // at once; the one longest at rest makes room for one more
inline constexpr std::size_t http_workers_max = 256;          // requests under way; one more is told to come again
inline constexpr std::size_t http_answers_max = 128;          // of those, answers: the others keep room to lend and to ask
inline constexpr std::size_t http_listeners_max = 32;         // of those, streams of events; a page has one
inline constexpr std::size_t http_choices_max = 8;            // answers to one request, each a session of its own
inline constexpr std::size_t http_head_bytes_max = 16u << 10; // request line and headers; browsers send some 2 KiB
inline constexpr std::size_t http_path_bytes_max = 512;       // the longest of ours has some 60
inline constexpr std::size_t http_body_bytes_max = message_bytes_max;
inline constexpr std::size_t http_prompt_bytes_max = message_bytes_max - (64u << 10);  // the frame has the fields beside it too, stop texts being the longest
static_assert(stop_strings_max * (stop_bytes_max + 8) < (32u << 10));
inline constexpr std::size_t http_lease_keys_max = 1024;      // of which it is known what was asked with them: each held lease's and each request's, and some
inline constexpr std::size_t http_bodies_bytes_max = 64u << 20;  // of all requests together; one more is told to come again
inline constexpr std::size_t http_body_bytes_free = 16u << 10;   // a body's first bytes, which do not count there: commands for memory get through a flood
inline constexpr std::size_t http_workers_kept = 8;              // threads that stay though nothing is to do; further ones end after http_worker_rest
inline constexpr std::chrono::seconds http_worker_rest{10};
inline constexpr std::size_t http_json_depth_max = 16;        // the deepest of ours has 5
inline constexpr std::size_t http_listener_queue_max = 1000;  // events that wait for one slow reader, who is then dropped
inline constexpr std::size_t http_replies_queued_max = 1u << 14;  // tokens that wait for one slow reader, whose answer is then cancelled
inline constexpr std::chrono::seconds http_head_timeout{10};  // from a request's first byte to the end of its headers
inline constexpr std::chrono::seconds http_body_timeout{60};  // and of its body: the largest at 2 Mbit/s
inline constexpr std::chrono::seconds http_idle_timeout{120}; // between two requests of a connection
inline constexpr std::chrono::seconds http_stall_timeout{30}; // without a byte taken by the reader of an answer
inline constexpr std::chrono::seconds http_drain_timeout{1};  // for a refused body on its way, which would otherwise cut the refusal off
inline constexpr std::chrono::seconds http_ping_interval{15}; // in a stream of events: proxies cut silent ones after 30 and more
inline constexpr std::chrono::seconds http_retry_after{1};    // what a refused client is told to wait
inline constexpr std::chrono::seconds http_answer_timeout{150};  // for what is no answer of the model: longer than any wait between actors

// --- the journal
inline constexpr std::size_t journal_around_bytes_max = 64u << 10;  // of a record beside its frame; the largest: a header's settings
inline constexpr std::size_t journal_record_bytes_max = message_bytes_max + journal_around_bytes_max;  // a damaged length stays bounded
inline constexpr std::size_t journal_queue_bytes_max = 64u << 20;  // not yet written; three of the largest frames, or a second's pause of a disk
inline constexpr std::size_t journal_write_bytes = 1u << 20;       // written by one call: larger ones gain nothing
inline constexpr std::chrono::milliseconds journal_pause{20};      // between writes: a wake a message would cost its sender a system call

// --- events. A subscriber that does not read loses them: it must cost the daemon neither time nor memory without end.
inline constexpr std::size_t event_bytes_max = 64u << 10;         // of one frame; the largest names a few figures of every card
inline constexpr std::size_t event_topic_bytes_max = 64;          // a topic is the name of an event
inline constexpr std::size_t subscription_bytes_max = 4096;       // what a subscriber may send at once: a beginning of a topic, a handshake
inline constexpr int events_high_water = 1000;                    // for one subscriber: 64 MiB of the largest, an hour of the usual
inline constexpr std::size_t events_queued_max = 1u << 14;        // on their way to the socket's thread, which waits for nobody
inline constexpr std::size_t events_queued_bytes_max = 64u << 20;

// --- access from other machines
inline constexpr std::size_t curve_clients_max = 1024;         // keys of clients in one file: far above the machines of one group
inline constexpr std::size_t key_file_bytes_max = 256u << 10;  // so many keys, with comments

// --- waits between actors. A window of a large model on slow memory stays below a second; these only catch a bug or a lost card.
inline constexpr std::chrono::seconds window_timeout{120};
inline constexpr std::chrono::seconds resize_timeout{120};
inline constexpr std::chrono::seconds order_timeout{120};  // as many long prompts may be before this one
inline constexpr std::chrono::seconds status_timeout{10};
inline constexpr std::chrono::seconds stop_timeout{5};  // for the window under way when the daemon stops
inline constexpr std::chrono::seconds cards_end_timeout{60};  // for all actors when the daemon stops: a card ends between two messages
static_assert(cards_end_timeout > gpu_window_timeout + gpu_copy_timeout);  // so even one whose GPU hangs ends by itself

// --- replay of a journal
inline constexpr std::chrono::seconds replay_silence{20};  // from a daemon, before a recorded reply counts as missing; a long prompt takes seconds
inline constexpr std::size_t replay_differences_max = 1000;  // kept and shown; one early difference can make all later replies differ

// --- shrinking and growing
inline constexpr std::chrono::milliseconds resize_step{26};  // a long resize is cut here, so that no token is late by more than 50 ms; giving 16 GiB back takes 14 to 20

// Copies that are awaited together: over PCIe 5 some 0.6 ms, beside which the 10 us of waiting do not count; in RAM a few ms.
inline constexpr std::uint64_t copy_batch_bytes = 32u << 20;

// Where a device copies while windows run: what a step begins to copy should take between these, so that no token is late by more than 50 ms. In
// bytes it is at least some experts, and at most what the fastest link (PCIe 6, 100 GB/s) does in that time.
inline constexpr std::chrono::milliseconds copies_ahead{25};
inline constexpr std::chrono::milliseconds copies_ahead_max{40};
inline constexpr std::uint64_t copies_ahead_bytes_min = 32u << 20;
inline constexpr std::uint64_t copies_ahead_bytes_max = std::uint64_t{4} << 30;

// A step that has lasted so long leaves without beginning copies: the window beside them takes longest, since nothing is copied yet.
inline constexpr std::chrono::milliseconds before_copies_max{6};

inline constexpr std::uint32_t resize_rounds_max = 4;  // times the free figure is read again; a neighbour that takes more each time wins

// --- adapting residency to what is used. Swaps cost a copy each, between windows, so they are few and need a clear reason.
inline constexpr std::uint32_t adapt_period_windows = 16;  // looking at all experts costs about a token's time on a large model
inline constexpr std::uint32_t adapt_swaps_max = 8;        // copies of a few MB each: below a millisecond a period and card
inline constexpr double adapt_margin = 1.5;                // an expert must be so much hotter than the one it replaces

}  // namespace ebb::limits
