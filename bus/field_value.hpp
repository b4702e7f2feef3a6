// bus/field_value.hpp: the single values a field may hold: how each is taken from msgpack, written, and asked for in an error.
#pragma once
#include "bus/fields.hpp"
#include "bus/wire.hpp"
#include <cstdint>
#include <string>
#include <string_view>

namespace ebb::bus {

// Whether `what` is of the type of `into` and within `allowed`; only then is `into` written. A whole number is also taken where
// a real one is meant, never the other way round, and nothing is taken for a truth value but one.
bool take(const wire::value& what, const range& allowed, bool& into);
bool take(const wire::value& what, const range& allowed, std::uint32_t& into);
bool take(const wire::value& what, const range& allowed, std::uint64_t& into);
bool take(const wire::value& what, const range& allowed, std::int32_t& into);
bool take(const wire::value& what, const range& allowed, float& into);   // of a request, so it must be finite
bool take(const wire::value& what, const range& allowed, double& into);  // of a reply: measured, so whatever it is
bool take(const wire::value& what, const range& allowed, std::string& into);
bool take(const wire::value& what, const range& allowed, request_id& into);
bool take(const wire::value& what, const range& allowed, errc& into);

// What take() would have taken, for "x must be ...". The last parameter only names the type.
std::string wanted(const range& allowed, bool);
std::string wanted(const range& allowed, std::uint32_t);
std::string wanted(const range& allowed, std::uint64_t);
std::string wanted(const range& allowed, std::int32_t);
std::string wanted(const range& allowed, float);
std::string wanted(const range& allowed, double);
std::string wanted(const range& allowed, const std::string&);
std::string wanted(const range& allowed, const request_id&);
std::string wanted(const range& allowed, errc);
std::string wanted_list(const range& allowed);

void put(wire::writer& out, bool what);
void put(wire::writer& out, std::uint32_t what);
void put(wire::writer& out, std::uint64_t what);
void put(wire::writer& out, std::int32_t what);  // Pre: >= 0, as every token is
void put(wire::writer& out, float what);
void put(wire::writer& out, double what);
void put(wire::writer& out, const std::string& what);
void put(wire::writer& out, const request_id& what);
void put(wire::writer& out, errc what);

bool holds(const range& allowed, double what) noexcept;

}  // namespace ebb::bus
