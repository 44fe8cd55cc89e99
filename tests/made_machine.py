"""A made-up machine in a folder, as Linux would describe it in /sys and /proc."""


def put(root, path, text):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")


def pci(root, way, pci_class, vendor="0x10de", numa=0, speed="8.0 GT/s PCIe", width=16):
    """A PCI function at the end of a way, which begins with its root: pci0000:00/0000:00:01.0."""
    folder = root / "sys/devices" / way
    for name, text in (
        ("class", f"{pci_class}00"),
        ("vendor", vendor),
        ("numa_node", numa),
        ("max_link_speed", speed),
        ("max_link_width", width),
    ):
        put(folder, name, text)
    link = root / "sys/bus/pci/devices" / folder.name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(folder)
    return folder


def build(root):
    """Two sockets of two cores of two threads, each a NUMA node; four GPUs, a card and a disk.

    The GPUs of socket 0 and the card share a switch; those of socket 1 have a root port each.
    """
    put(root, "sys/devices/system/cpu/online", "0-7")
    put(root, "proc/cpuinfo", "processor : 0\nmodel name\t: Some Processor 9000")
    put(root, "proc/meminfo", "MemTotal:  2097152 kB")
    for cpu in range(8):  # second threads are counted after all first ones
        core = cpu % 4
        socket = core // 2
        put(root, f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", socket)
        put(root, f"sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list", f"{core},{core + 4}")
        caches = (
            ("1", "Data", "32K", f"{core},{core + 4}"),
            ("1", "Instruction", "64K", f"{core},{core + 4}"),
            ("2", "Unified", "1M", f"{core},{core + 4}"),
            ("3", "Unified", "16M", f"{2 * socket}-{2 * socket + 1},{2 * socket + 4}-{2 * socket + 5}"),
        )
        for index, (level, kind, size, shared) in enumerate(caches):
            folder = f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
            for name, text in (("level", level), ("type", kind), ("size", size), ("shared_cpu_list", shared)):
                put(root, f"{folder}/{name}", text)
    for node in (0, 1):
        folder = f"sys/devices/system/node/node{node}"
        put(root, f"{folder}/cpulist", f"{2 * node}-{2 * node + 1},{2 * node + 4}-{2 * node + 5}")
        put(root, f"{folder}/meminfo", f"Node {node} MemTotal:  1048576 kB")
    bridge = "0x0604"
    up = "pci0000:00/0000:00:01.0/0000:01:00.0"
    pci(root, "pci0000:00/0000:00:01.0", bridge)
    pci(root, up, bridge)
    for at in range(3):
        pci(root, f"{up}/0000:02:0{at}.0", bridge)
    pci(root, f"{up}/0000:02:00.0/0000:03:00.0", "0x0302")
    pci(root, f"{up}/0000:02:01.0/0000:04:00.0", "0x0302")
    card = pci(root, f"{up}/0000:02:02.0/0000:05:00.0", "0x0207", "0x15b3", width=8)
    put(card, "infiniband/mlx5_0/ports/1/rate", "100 Gb/sec (4X EDR)")
    put(card, "infiniband/mlx5_0/ports/1/link_layer", "InfiniBand")
    put(card, "net/ib0/speed", "100000")
    for at in range(3):
        pci(root, f"pci0000:80/0000:80:0{at}.0", bridge, numa=1)
    pci(root, "pci0000:80/0000:80:00.0/0000:81:00.0", "0x0302", numa=1)
    pci(root, "pci0000:80/0000:80:01.0/0000:82:00.0", "0x0302", numa=1, width=8)
    disk = pci(root, "pci0000:80/0000:80:02.0/0000:83:00.0", "0x0108", "0x144d", numa=1, width=4)
    put(disk, "nvme/nvme0/nvme0n1/size", "1")
    return root
