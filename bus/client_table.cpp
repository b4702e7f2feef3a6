#include "bus/client_table.hpp"

namespace ebb::bus {

std::vector<client_id> client_table::closed(int connection) {
  open_.erase(connection);
  std::vector<client_id> left;
  for (const auto& [who, client] : clients_) {
    if (client.connection == connection) left.push_back(who);
  }
  return left;
}

bool client_table::seen(const client_id& who, int connection, bool delimited) {
  connected_client& client = clients_[who];
  client.connection = connection;
  client.delimited = delimited;
  return open_.contains(connection);
}

bool client_table::knows(const client_id& who, int connection) const {
  const auto entry = clients_.find(who);
  return entry != clients_.end() && entry->second.connection == connection;
}

connected_client* client_table::find(const client_id& who) {
  const auto entry = clients_.find(who);
  return entry == clients_.end() ? nullptr : &entry->second;
}

std::vector<client_id> client_table::held_up() const {
  std::vector<client_id> who_waits;
  for (const auto& [who, client] : clients_) {
    if (!client.waiting.empty()) who_waits.push_back(who);
  }
  return who_waits;
}

}  // namespace ebb::bus
