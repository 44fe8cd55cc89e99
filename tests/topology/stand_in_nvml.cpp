// A stand-in for NVIDIA's management library, for machines without a GPU: it answers what
// environment variables say, through the functions that nvidia-ml-py calls. Not NVIDIA's code.
//
// STAND_IN_GPUS      addresses, "00000000:03:00.0 00000000:04:00.0"
// STAND_IN_LINKS     a GPU's number, what its next NVLink leads to (0 GPU, 2 NVSwitch) and where:
//                    "0 0 00000000:04:00.0;0 2 00000000:07:00.0"; "-" hides where
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace {

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3 };

std::vector<std::string> split(const char *name, char between) {
    const char *text = std::getenv(name);
    std::istringstream stream(text ? text : "");
    std::vector<std::string> parts;
    for (std::string part; std::getline(stream, part, between);)
        if (!part.empty()) parts.push_back(part);
    return parts;
}

struct Link { unsigned kind; std::string address; };

std::vector<Link> links(unsigned gpu) {
    std::vector<Link> own;
    for (const std::string &entry : split("STAND_IN_LINKS", ';')) {
        std::istringstream words(entry);
        unsigned number;
        Link link;
        if (words >> number >> link.kind >> link.address && number == gpu) own.push_back(link);
    }
    return own;
}

// nvidia-ml-py treats a handle as a pointer; this one is the GPU's number, counted from 1.
unsigned number(void *handle) { return static_cast<unsigned>(reinterpret_cast<size_t>(handle)) - 1; }

struct PciInfo {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char address[32];
};

int put(PciInfo *info, const std::string &address) {
    std::memset(info, 0, sizeof *info);
    std::snprintf(info->address, sizeof info->address, "%s", address.c_str());
    return SUCCESS;
}

}  // namespace

extern "C" {

int nvmlInit_v2() { return SUCCESS; }
int nvmlInitWithFlags(unsigned) { return SUCCESS; }
int nvmlShutdown() { return SUCCESS; }
const char *nvmlErrorString(int) { return "stand-in says no"; }

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = static_cast<unsigned>(split("STAND_IN_GPUS", ' ').size());
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    *handle = reinterpret_cast<void *>(static_cast<size_t>(index) + 1);
    return index < split("STAND_IN_GPUS", ' ').size() ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetPciInfo_v3(void *handle, PciInfo *info) {
    return put(info, split("STAND_IN_GPUS", ' ').at(number(handle)));
}

int nvmlDeviceGetName(void *, char *name, unsigned length) {
    std::snprintf(name, length, "Stand-in V100");
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(void *, unsigned long long *total_free_used) {
    total_free_used[0] = 16ULL << 30;
    total_free_used[1] = total_free_used[2] = 0;
    return SUCCESS;
}

int nvmlDeviceGetMaxPcieLinkGeneration(void *, unsigned *generation) {
    *generation = 3;
    return SUCCESS;
}

int nvmlDeviceGetMaxPcieLinkWidth(void *, unsigned *width) {
    *width = 16;
    return SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(void *, int *major, int *minor) {
    *major = 7;
    *minor = 0;
    return SUCCESS;
}

int nvmlDeviceGetNvLinkState(void *handle, unsigned link, unsigned *active) {
    *active = link < links(number(handle)).size();
    return *active ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *handle, unsigned link, PciInfo *info) {
    const std::string address = links(number(handle)).at(link).address;
    return address == "-" ? NOT_SUPPORTED : put(info, address);
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void *handle, unsigned link, unsigned *kind) {
    *kind = links(number(handle)).at(link).kind;
    return SUCCESS;
}

}  // extern "C"
