// config/assert.hpp: conditions that only a bug of ours can break. Never used on input.
//
// EBB_ASSERT stays on in release; EBB_DASSERT is for inner loops and is on in the sanitizer presets.
// One condition each, so that the message names what broke.
#pragma once

namespace ebb {
// Prints the condition and its place on stderr, then aborts.
[[noreturn]] void assert_failed(const char* condition, const char* file, int line) noexcept;
}  // namespace ebb

#define EBB_ASSERT(condition) (static_cast<bool>(condition) ? void(0) : ::ebb::assert_failed(#condition, __FILE__, __LINE__))

#if defined(EBB_DEBUG_ASSERTS)
#define EBB_DASSERT(condition) EBB_ASSERT(condition)
#else
#define EBB_DASSERT(condition) static_cast<void>(0)
#endif
