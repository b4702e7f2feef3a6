// model/gguf_convert.hpp: metadata values as C++ types. Nothing is when the value has another type or does not fit.
//
// T: std::uint32_t and std::int32_t from any integer type in range, float from either float type, double from any number, bool,
// std::string_view; a std::vector of them (bool excepted) from an array.
#pragma once
#include "model/gguf.hpp"
#include <optional>

namespace ebb::model {

template <class T>
std::optional<T> convert(const gguf_value& value);

// Bytes of a value of a type of fixed size, 0 for string, array and numbers that are no type.
std::uint64_t size_of(gguf_type type) noexcept;

}  // namespace ebb::model
