// bus/limits.hpp: the bounds of the bus, in addition to those of config/limits.hpp.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace ebb::limits {

// --- a request
inline constexpr std::uint32_t prompt_ids_max = 1u << 20;  // tokens of a prompt given as ids; above any model's context
inline constexpr std::size_t message_values_max = std::size_t{1} << 21;  // of a frame: a tree costs some 50 times its bytes
inline constexpr std::size_t message_depth_max = 4;                      // the deepest message is map > array > map

// --- the sockets
inline constexpr int send_high_water = 1000;   // replies ZeroMQ holds for one client; beyond it they wait in our own backlog
inline constexpr int receive_high_water = 64;  // frames of one client read ahead: 1 GiB of the largest ones
inline constexpr int frames_per_turn = 256;    // read before the thread looks at the replies again
inline constexpr std::size_t backlog_max = 1u << 14;        // unsent replies to one client; one that reads nothing gets no more
inline constexpr std::size_t backlog_total_max = 1u << 17;  // unsent replies to all clients together
inline constexpr std::chrono::milliseconds resend_interval{2};         // ZeroMQ does not say when a full client has room again
inline constexpr std::chrono::milliseconds stop_linger{100};           // for replies on their way when the daemon stops
inline constexpr std::chrono::milliseconds heartbeat_interval{5'000};  // on tcp, where a peer may vanish without a word
inline constexpr std::chrono::milliseconds heartbeat_timeout{30'000};

}  // namespace ebb::limits
