"""What Trackbed would leave on a host for its next boot, handed over to the tools that build hosts.

    files        the files of one node, the bytes of `trackbed apply`
    arguments    kernel arguments, and a shell script that gives them to the boot loader
    cloud_init   user-data and meta-data
    autoinstall  user-data for Ubuntu's installer
    maas         a commissioning script and tags
    ansible      a role, its variables, an inventory and a playbook
    archive      a tar

Every module is pure: a plan in, text or bytes out. Firmware of NICs and settings of the BIOS are no files, so they are
not handed over; `trackbed doctor` on the finished host tells what is left.
"""
