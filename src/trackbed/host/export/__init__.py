"""The files of a host for its next boot, in the formats of tools that build hosts.

    files        the files of one node, the bytes of `trackbed apply`
    arguments    kernel arguments, and a shell script that passes them to the boot loader
    cloud_init   user-data and meta-data
    autoinstall  user-data for Ubuntu's installer
    maas         a commissioning script and tags
    ansible      a role, its variables, an inventory and a playbook
    archive      a tar archive

Each module converts a plan to text or bytes and reads no machine. NIC firmware and BIOS settings are not in files, so
they are not exported; `trackbed doctor` reports them on the finished host.
"""
